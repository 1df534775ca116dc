/** n is `targetLength`, which the paper requests in each prompt, exactly or at most; 0 means L / 2. */
import { defineReward, nonNegative, sumOf } from './define';
import { correctness } from './groups';

const parameters = { alpha: nonNegative().default(0.0003), targetLength: nonNegative().default(0) };

export const l1Exact = defineReward({
  name: 'l1-exact',
  summary: 'A penalty per token of distance from a target length, for all answers (L1-Exact).',
  formula: 'c - alpha * |n - l|',
  source: 'arXiv 2503.04697',
  taxonomy: { scope: 'completion', correct: 'target', incorrect: 'target' },
  length: 'total',
  parameters,
  reward: ({ alpha, targetLength }, { l, L }) => ({
    score: (rollout, view) =>
      sumOf(correctness(rollout), -alpha * Math.abs((targetLength || L(view) / 2) - l(rollout))),
  }),
});

/** The authors' code halves the slope. */
export const l1Max = defineReward({
  name: 'l1-max',
  summary: 'Correct answers earn more the further they stay below a target length (L1-Max).',
  formula: 'c * clip(alpha * (n - l) + 0.5, 0, 1)',
  source: 'arXiv 2503.04697',
  taxonomy: { scope: 'completion', correct: 'shorter', incorrect: 'none' },
  length: 'total',
  parameters,
  reward: ({ alpha, targetLength }, { l, L }) => ({
    score(rollout, view) {
      const slope = alpha * ((targetLength || L(view) / 2) - l(rollout));
      return { value: correctness(rollout) * Math.min(1, Math.max(0, slope + 0.5)) };
    },
  }),
});
