/** n is `targetLength`, the longest length requested; 0 means L / 2. The authors' code halves the slope. */
import { defineReward, nonNegative } from './define';
import { correctness } from './groups';

export const l1Max = defineReward({
  name: 'l1-max',
  summary: 'Correct answers earn more the further they stay below a target length (L1-Max).',
  formula: 'c * clip(alpha * (n - l) + 0.5, 0, 1)',
  source: 'arXiv 2503.04697',
  taxonomy: { scope: 'completion', correct: 'shorter', incorrect: 'none' },
  length: 'total',
  parameters: { alpha: nonNegative().default(0.0003), targetLength: nonNegative().default(0) },
  reward: ({ alpha, targetLength }, { l, L }) => ({
    score(rollout, view) {
      const slope = alpha * ((targetLength || L(view) / 2) - l(rollout));
      return { value: correctness(rollout) * Math.min(1, Math.max(0, slope + 0.5)) };
    },
  }),
});
