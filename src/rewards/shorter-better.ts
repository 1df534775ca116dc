/** SOL is the length of the group's shortest correct answer, or its mean length when none is correct. */
import { defineReward, nonNegative, sumOf } from './define';
import { mean, minimum } from '../base/statistics';
import { correctness, correctOf } from './groups';

export const shorterBetter = defineReward({
  name: 'shorter-better',
  summary: "A penalty on the distance from the group's shortest correct answer (ShorterBetter).",
  formula: 'alpha * c - beta * |l - SOL|',
  source: "arXiv 2504.21370; the constants as in the authors' code",
  taxonomy: { scope: 'group', correct: 'shorter', incorrect: 'target' },
  length: 'total',
  parameters: { alpha: nonNegative().default(2), beta: nonNegative().default(0.001) },
  reward: ({ alpha, beta }, { l }) => ({
    score(rollout, { group }) {
      const correct = correctOf(group).map(l);
      const optimal = correct.length > 0 ? minimum(correct) : mean(group.rollouts.map(l));
      return sumOf(alpha * correctness(rollout), -beta * Math.abs(l(rollout) - optimal));
    },
  }),
});
