/**
 * |Y| is all output tokens, so a wrong answer gains from length; with `wrongPenaltySign: theory` it gets
 * -|Y|/L instead. An empty completion counts as one token.
 */
import { defineReward } from './define';
import { wrongPenaltySign } from './general';
import { isCorrect } from './groups';

export const recut = defineReward({
  name: 'recut',
  summary:
    'The inverse of the output length, positive for correct answers and negative for wrong ones (ReCut).',
  formula: '+1/|Y| if correct, -1/|Y| if not',
  source: 'the ACOER paper, table of rewards',
  taxonomy: { scope: 'completion', correct: 'shorter', incorrect: 'longer', bounded: false },
  length: 'total',
  parameters: wrongPenaltySign,
  reward: ({ wrongPenaltySign: sign }, { l, L }) => ({
    score: (rollout, view) => {
      const Y = Math.max(1, l(rollout));
      if (isCorrect(rollout)) return { value: 1 / Y };
      return { value: sign === 'table' ? -1 / Y : -Y / L(view) };
    },
  }),
});
