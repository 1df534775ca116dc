/** alpha's default is ours. */
import { defineReward, nonNegative, sumOf } from './define';
import { isCorrect, standardLength } from './groups';

export const aroraZanette = defineReward({
  name: 'arora-zanette',
  summary: "Correct answers lose reward by their length relative to the prompt's other correct ones.",
  formula: 'c * (1 - alpha * sigmoid((l - mean)/(std + 1e-7)))',
  source: 'arXiv 2502.04463',
  taxonomy: { scope: 'group', correct: 'shorter', incorrect: 'none', bounded: false },
  length: 'total',
  parameters: { alpha: nonNegative().lt(1).default(0.1) },
  reward: ({ alpha }, { l }) => ({
    score(rollout, { group }) {
      if (!isCorrect(rollout)) return sumOf(0, 0);
      return sumOf(1, -alpha / (1 + Math.exp(-standardLength(rollout, group, l))));
    },
  }),
});
