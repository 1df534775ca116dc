/** The paper gives no formula for this corollary. A tau of 0 means L / 2. */
import { defineReward, nonNegative } from './define';
import { generalForm } from './general';
import { shapeOf } from './shapes';

export const binary = defineReward({
  name: 'binary',
  summary: 'A bonus for short correct answers and a penalty for long wrong ones, in steps.',
  formula: 'c + alpha * c * [l <= tau] - beta * (1 - c) * [l > tau]',
  source: 'ours, for the corollary "binary immunity" of the ACOER paper',
  taxonomy: { scope: 'completion', correct: 'shorter', incorrect: 'shorter', continuous: false },
  length: 'thinking',
  parameters: {
    alpha: nonNegative().default(0.3),
    beta: nonNegative().default(0.1),
    tau: nonNegative().default(0),
  },
  reward: ({ alpha, beta, tau }, measures) => ({
    score: generalForm(
      { alpha, beta, wrongPenaltySign: 'theory' },
      shapeOf('binary', { logScale: 1, tau }),
      measures,
    ),
  }),
});
