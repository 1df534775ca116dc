// Answers as in GSM8K: the last line is `#### 42`. The judge is a pattern whose group is compared as
// mathematics; the reference is what follows #### in the answer column.
//
//   node examples/tasks/gsm8k.mjs [MODEL]          (in a clone, after `npm ci`; elsewhere import from 'acoer')
import { train } from '../../dist/index.js';
import { setting } from './scripted.mjs';

const dataset = [
  {
    question: 'A baker sells 48 rolls in the morning and half as many in the afternoon. How many in all?',
    answer: 'In the afternoon: 48 / 2 = 24.\n#### 72',
  },
];
const { settings, options } = setting([
  '<think>\n48 + 24\n</think>\n#### 72',
  '<think>\n48 + 24\n</think>\nSo:\n#### 72.0',
  '<think>\n48 * 2\n</think>\n#### 96',
  '<think>\n48 + 24\n</think>\nIt is 72.',
]);
const run = await train(
  {
    promptTemplate: '{problem}\nEnd with a line "#### " and the number.',
    judge: 'regex',
    judgeParams: { pattern: '####\\s*\\$?(-?[\\d.,]+)', compare: 'math' },
    ...settings,
  },
  {
    dataset, // or the setting dataset: 'gsm8k', from the hub
    reward: ({ correct, totalTokens }) => (correct ? 1 - totalTokens / 4096 : 0),
    ...options,
  },
);
await run.result();
