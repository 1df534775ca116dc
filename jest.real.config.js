/** Tests on SmolLM2-135M-Instruct, which scripts/real/fetch-smollm2 fetches. */
module.exports = { ...require('./jest.config.js'), testMatch: ['<rootDir>/test/real/*.real.ts'] };
