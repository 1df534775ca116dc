// Code that must pass the row's tests, which run in a child process. The process is ended after five seconds;
// it is a process of yours with your rights: run untrusted code in a container or under another user.
//
//   node examples/tasks/code.mjs [MODEL]          (in a clone, after `npm ci`; elsewhere import from 'acoer')
import { execFile } from 'node:child_process';
import { train } from '../../dist/index.js';
import { setting } from './scripted.mjs';

const dataset = [
  { problem: 'Write a JavaScript function double(x).', tests: ['double(2) === 4', 'double(-1) === -2'] },
];

/** The number of tests that hold; 0 if the program fails or hangs. */
const passed = (code, tests) =>
  new Promise((resolve) => {
    const program = `${code}\nconsole.log([${tests.join(',')}].filter(Boolean).length)`;
    const options = { timeout: 5000, killSignal: 'SIGKILL', maxBuffer: 1 << 20 };
    execFile(process.execPath, ['-e', program], options, (error, out) =>
      resolve(error ? 0 : Number(out) || 0),
    );
  });

const block = (answer) => /```(?:js|javascript)?\n([^]*?)```/.exec(answer)?.[1] ?? '';

const { settings, options } = setting([
  '<think>\n2x\n</think>\n```js\nconst double = (x) => 2 * x;\n```',
  '<think>\nx^2\n</think>\n```js\nconst double = (x) => x * x;\n```',
  '<think>\nhm\n</think>\n```js\nfor (;;);\n```',
  '<think>\n2x\n</think>\nMultiply x by 2.',
]);
const run = await train(
  {
    promptTemplate: '{problem} Answer with one block of code.',
    ...settings,
  },
  {
    dataset,
    judge: async ({ answer }, { row }) => ({
      correct: (await passed(block(answer), row.tests)) === row.tests.length,
      extracted: block(answer),
    }),
    // Part of the reward for part of the tests.
    reward: async ({ answer, problem: { row } }) =>
      (await passed(block(answer), row.tests)) / row.tests.length,
    ...options,
  },
);
await run.result();
