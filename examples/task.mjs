// A task of your own: rows with your columns, your judge, your reward.
//
//   node examples/task.mjs          (in a clone, after `npm ci`; elsewhere import from 'acoer')
import { train } from '../dist/index.js';

const dataset = Array.from({ length: 200 }, (_, i) => ({
  prompt: `${i % 10}+${1 + (i % 7)}-${1 + (i % 9)} mod 10?`,
  sum: ((i % 10) + (i % 7) - (i % 9) + 10) % 10,
}));
const run = await train(
  { model: 'tiny', maxSteps: 40 },
  {
    dataset,
    judge: ({ answer }, { row }) => answer.includes(`{${row.sum}}`),
    reward: ({ correct, thinkingTokens }) => (correct ? 1 - thinkingTokens / 256 : 0),
  },
);
const { base, trained } = await run.result();
console.log(base.sampled.accuracy, trained.sampled.accuracy, trained.sampled.thinkingTokens);
