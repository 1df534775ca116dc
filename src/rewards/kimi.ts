/** min and max are over the group; x is 0 when all lengths are equal. */
import { defineReward, nonNegative, sumOf } from './define';
import { correctness } from './groups';
import { maximum, minimum } from '../base/statistics';

export const kimi = defineReward({
  name: 'kimi',
  summary: "Rank by length within the group; wrong answers can only lose (Kimi k1.5's length reward).",
  formula: 'c + weight * x, x = 0.5 - (l - min)/(max - min); min(0, x) if wrong',
  source: 'arXiv 2501.12599',
  taxonomy: { scope: 'group', correct: 'shorter', incorrect: 'shorter', bounded: false },
  length: 'total',
  parameters: { weight: nonNegative().default(0.4) },
  reward: ({ weight }, { l }) => ({
    score(rollout, { group }) {
      const lengths = group.rollouts.map(l);
      const [least, most] = [minimum(lengths), maximum(lengths)];
      const c = correctness(rollout);
      const x = most === least ? 0 : 0.5 - (l(rollout) - least) / (most - least);
      return sumOf(c, weight * (c === 1 ? x : Math.min(0, x)));
    },
  }),
});
