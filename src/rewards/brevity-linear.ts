/** mean_c and max_l are over the group, so length does not matter in a group without a correct answer. */
import { defineReward, nonNegative, sumOf } from './define';
import { accuracyOf, correctness } from './groups';
import { maximum } from '../base/statistics';

export const brevityLinear = defineReward({
  name: 'brevity-linear',
  summary:
    "A linear penalty on length relative to the group's longest, scaled by its mean reward (prime-rl).",
  formula: 'c - mean_c * weight * l/max_l',
  source: 'prime-rl',
  taxonomy: { scope: 'group', correct: 'shorter', incorrect: 'shorter', bounded: false },
  length: 'total',
  parameters: { weight: nonNegative().default(0.25) },
  reward: ({ weight }, { l }) => ({
    score(rollout, { group: { rollouts } }) {
      // If all lengths are 0, the penalty is 0.
      const longest = maximum(rollouts.map(l)) || 1;
      return sumOf(correctness(rollout), (-accuracyOf(rollouts) * weight * l(rollout)) / longest);
    },
  }),
});
