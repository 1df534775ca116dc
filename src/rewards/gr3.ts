/** mean_l is over the group. The paper's R is c here. */
import { defineReward, nonNegative } from './define';
import { mean } from '../base/statistics';
import { correctness } from './groups';

export const gr3 = defineReward({
  name: 'gr3',
  summary: "Correctness divided by a factor that grows with length over the group's mean (GR3).",
  formula: 'c / (1 + alpha * l/mean_l)',
  source: 'arXiv 2603.10535',
  taxonomy: { scope: 'group', correct: 'shorter', incorrect: 'none', bounded: false },
  length: 'total',
  parameters: { alpha: nonNegative().default(0.33) },
  reward: ({ alpha }, { l }) => ({
    score(rollout, { group }) {
      const average = mean(group.rollouts.map(l));
      // If all lengths are 0, each equals the mean.
      const relative = average === 0 ? 1 : l(rollout) / average;
      return { value: correctness(rollout) / (1 + alpha * relative) };
    },
  }),
});
