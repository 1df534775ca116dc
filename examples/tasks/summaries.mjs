// Summaries of a wanted length: a judge function asks for the row's key words, the reward for its length.
// There is no reference answer.
//
//   node examples/tasks/summaries.mjs [MODEL]          (in a clone, after `npm ci`; elsewhere import from 'acoer')
import { train } from '../../dist/index.js';
import { setting } from './scripted.mjs';

const dataset = [
  {
    problem:
      'The ferry to Hven runs every hour in summer. In winter it runs four times a day. Dogs are welcome.',
    keywords: ['ferry', 'Hven'],
    words: 10,
  },
];

const wordsIn = (text) => text.trim().split(/\s+/).filter(Boolean).length;

const { settings, options } = setting([
  '<think>\nshort\n</think>\nThe ferry to Hven runs hourly in summer, rarely in winter.',
  '<think>\nshorter\n</think>\nThe ferry to Hven runs often.',
  '<think>\nlong\n</think>\nThe ferry to Hven runs every hour in summer, four times a day in winter, and it takes dogs with it too.',
  '<think>\nlost\n</think>\nThe boat runs every hour in summer and dogs are welcome.',
]);
const run = await train(
  {
    promptTemplate: 'Summarise in one sentence:\n\n{problem}',
    ...settings,
  },
  {
    dataset,
    judge: ({ answer }, { row }) => row.keywords.every((word) => answer.includes(word)),
    reward({ correct, answer, problem: { row } }) {
      const off = Math.abs(wordsIn(answer) - row.words) / row.words;
      return correct ? Math.max(0, 1 - off) : 0;
    },
    ...options,
  },
);
await run.result();
