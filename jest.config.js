const { availableParallelism } = require('node:os');

module.exports = {
  testEnvironment: 'node',
  roots: ['<rootDir>/test'],
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      {
        jsc: { parser: { syntax: 'typescript' }, target: 'es2022' },
        // hyparquet is ESM only: `import()` must stay an import, not become a require.
        module: { type: 'commonjs', ignoreDynamic: true },
      },
    ],
  },
  testTimeout: 60_000,
  // Jest's own choice leaves one core out, on two cores half of the machine.
  maxWorkers: Math.max(2, availableParallelism() - 1),
};
