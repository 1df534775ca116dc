/** L_T is `targetLength`; 0 means L / 2. */
import { z } from 'zod';
import { defineReward, sumOf } from './define';
import { isCorrect } from './groups';

export const laserParameters = {
  bonus: z.number().min(0).default(0.5),
  wrongPenalty: z.number().min(0).default(0.5),
};

export const laser = defineReward({
  name: 'laser',
  summary: 'A step: a bonus for correct answers within a target length (LASER).',
  formula: 'c + bonus * c * [l <= L_T]; -wrongPenalty if wrong',
  source: 'arXiv 2505.15612',
  taxonomy: {
    scope: 'completion',
    correct: 'shorter',
    incorrect: 'none',
    bounded: true,
    continuous: false,
    adaptive: false,
  },
  length: 'total',
  parameters: { ...laserParameters, targetLength: z.number().min(0).default(0) },
  reward: ({ bonus, wrongPenalty, targetLength }, { l, L }) => ({
    score(rollout, view) {
      if (!isCorrect(rollout)) return sumOf(-wrongPenalty, 0);
      return sumOf(1, l(rollout) <= (targetLength || L(view) / 2) ? bonus : 0);
    },
  }),
});
