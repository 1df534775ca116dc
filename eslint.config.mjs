import js from '@eslint/js';
import tseslint from 'typescript-eslint';

/** What opens a file by its name for reading: only src/base/regular-file.ts, which refuses pipes and devices. */
const READERS = ['readFileSync', 'readFile', 'createReadStream', 'copyFileSync', 'copyFile', 'cpSync', 'cp'];
const READING =
  'A pipe in the place of a file would wait for ever: read it through src/base/regular-file.ts, which refuses what is no regular file.';

export default tseslint.config(
  {
    ignores: [
      '.cache/',
      '**/dist/',
      'build/',
      'native/',
      'runs/',
      'assets/',
      'coverage/',
      'test/fixtures/',
      '**/*.generated.ts',
    ],
  },
  js.configs.recommended,
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.recommendedTypeChecked],
    languageOptions: {
      parserOptions: {
        project: ['./tsconfig.json', './tsconfig.browser.json'],
        tsconfigRootDir: import.meta.dirname,
      },
    },
    rules: {
      eqeqeq: 'error',
      'no-console': 'error',
      // An async function without await still turns a throw into a rejection, which interfaces here rely on.
      '@typescript-eslint/require-await': 'off',
      '@typescript-eslint/no-base-to-string': 'off',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true, allowBoolean: true, allowArray: true },
      ],
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true },
      ],
    },
  },
  {
    files: ['src/**/*.ts'],
    rules: {
      'no-restricted-imports': [
        'error',
        ...['node:fs', 'fs'].map((name) => ({
          name,
          importNames: [...READERS, 'promises'],
          message: READING,
        })),
        ...['node:fs/promises', 'fs/promises'].map((name) => ({
          name,
          importNames: [...READERS, 'open'],
          message: READING,
        })),
      ],
      'no-restricted-syntax': [
        'error',
        {
          selector: "CallExpression[callee.name='openSync']:not([arguments.1.value=/^(w|wx|a|ax)$/])",
          message: READING,
        },
        {
          selector: "CallExpression[callee.object.name='Math'] > SpreadElement",
          message: 'A long list overflows the stack: use minimum or maximum of src/base/statistics.',
        },
      ],
    },
  },
  {
    files: ['src/base/regular-file.ts'],
    rules: { 'no-restricted-imports': 'off', 'no-restricted-syntax': 'off' },
  },
  {
    files: ['test/**/*.ts'],
    rules: {
      'no-console': 'off',
      // jest's matchers such as expect.any() are of type any.
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-argument': 'off',
    },
  },
  {
    files: ['**/*.{js,cjs,mjs}'],
    languageOptions: {
      globals: Object.fromEntries(
        ['process', 'console', 'fetch', 'URL', 'AbortController', 'setTimeout', 'clearTimeout', 'setInterval']
          .concat([
            'AbortSignal',
            'clearInterval',
            'setImmediate',
            'Buffer',
            'TextDecoder',
            'Headers',
            'Response',
            'performance',
          ])
          .map((name) => [name, 'readonly']),
      ),
    },
    rules: {
      eqeqeq: 'error',
      'no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
    },
  },
  {
    files: ['**/*.{js,cjs}'],
    languageOptions: {
      sourceType: 'commonjs',
      globals: {
        require: 'readonly',
        module: 'writable',
        __dirname: 'readonly',
        __filename: 'readonly',
        exports: 'writable',
      },
    },
  },
);
