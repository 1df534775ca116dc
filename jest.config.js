const { availableParallelism } = require('node:os');

module.exports = {
  testEnvironment: 'node',
  roots: ['<rootDir>/test'],
  // The sources, so that tests need no build of the package.
  moduleNameMapper: {
    '^#verify$': '<rootDir>/packages/verify/src/index.ts',
    '^#verify/(.*)$': '<rootDir>/packages/verify/src/$1.ts',
  },
  globalSetup: '<rootDir>/test/helpers/before-all.ts',
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      {
        jsc: { parser: { syntax: 'typescript' }, target: 'es2022' },
        // hyparquet is ESM only, so `import()` must not be compiled to a require.
        module: { type: 'commonjs', ignoreDynamic: true },
      },
    ],
  },
  testSequencer: '<rootDir>/test/helpers/sequencer.cjs',
  reporters: ['default', '<rootDir>/test/helpers/summary.cjs'],
  // Passed to each module, because looking one up in a context of its own takes longer than most calls of it.
  sandboxInjectedGlobals: [
    'Array',
    'BigInt',
    'JSON',
    'Map',
    'Math',
    'Number',
    'Object',
    'Promise',
    'Set',
    'String',
  ],
  // Ends what hangs; a machine that others load is no failure.
  testTimeout: 300_000,
  // A worker keeps what earlier files left on its heap; collecting it blocks the tests that watch for blocking.
  workerIdleMemoryLimit: '512MB',
  // Jest's default leaves one core idle, which on two cores is half of the machine.
  maxWorkers: Math.max(2, availableParallelism() - 1),
};
