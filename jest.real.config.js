/** Tests on SmolLM2-135M-Instruct, which scripts/real/fetch-smollm2 fetches. */
module.exports = {
  ...require('./jest.config.js'),
  testMatch: ['<rootDir>/test/real/*.real.ts'],
  // Needs a server of vLLM: `npm run test:vllm`.
  testPathIgnorePatterns: process.env.ACOER_VLLM_URL ? [] : ['/vllm[.]real[.]ts$'],
};
