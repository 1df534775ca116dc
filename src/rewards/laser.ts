/** L_T is `targetLength`; 0 means L / 2. */
import { defineReward, nonNegative, sumOf } from './define';
import { isCorrect } from './groups';

export const laserParameters = {
  bonus: nonNegative().default(0.5),
  wrongPenalty: nonNegative().default(0.5),
};

export const laser = defineReward({
  name: 'laser',
  summary: 'A step: a bonus for correct answers within a target length (LASER).',
  formula: 'c + bonus * c * [l <= L_T]; -wrongPenalty if wrong',
  source: 'arXiv 2505.15612',
  taxonomy: { scope: 'completion', correct: 'shorter', incorrect: 'none', continuous: false },
  length: 'total',
  parameters: { ...laserParameters, targetLength: nonNegative().default(0) },
  reward: ({ bonus, wrongPenalty, targetLength }, { l, L }) => ({
    score(rollout, view) {
      if (!isCorrect(rollout)) return sumOf(-wrongPenalty, 0);
      return sumOf(1, l(rollout) <= (targetLength || L(view) / 2) ? bonus : 0);
    },
  }),
});
