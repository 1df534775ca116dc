/** n is `targetLength`, which the paper requests in each prompt; 0 means L / 2. */
import { defineReward, nonNegative, sumOf } from './define';
import { correctness } from './groups';

export const l1Exact = defineReward({
  name: 'l1-exact',
  summary: 'A penalty per token of distance from a target length, for all answers (L1-Exact).',
  formula: 'c - alpha * |n - l|',
  source: 'arXiv 2503.04697',
  taxonomy: { scope: 'completion', correct: 'target', incorrect: 'target' },
  length: 'total',
  parameters: { alpha: nonNegative().default(0.0003), targetLength: nonNegative().default(0) },
  reward: ({ alpha, targetLength }, { l, L }) => ({
    score: (rollout, view) =>
      sumOf(correctness(rollout), -alpha * Math.abs((targetLength || L(view) / 2) - l(rollout))),
  }),
});
