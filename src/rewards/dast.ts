/** B = p mean_correct + (1 - p) L, p the group's fraction of correct answers; a B of 0 (all empty) counts as 1. */
import { defineReward } from './define';
import { mean } from '../base/statistics';
import { accuracyOf, correctOf, isCorrect } from './groups';

export const dast = defineReward({
  name: 'dast',
  summary: "Length against a budget between the correct answers' mean and L, by difficulty (DAST).",
  formula: 'max(-0.5x + 0.5, 0.1) if correct, min(0.9x - 0.1, -0.1) if wrong; x = (l - B)/B',
  source: 'arXiv 2503.04472, from a secondary source',
  taxonomy: { scope: 'group', correct: 'shorter', incorrect: 'longer', bounded: false },
  length: 'total',
  parameters: {},
  reward: (_, { l, L }) => ({
    score(rollout, view) {
      const correct = correctOf(view.group).map(l);
      const solved = accuracyOf(view.group.rollouts);
      const ofCorrect = correct.length > 0 ? solved * mean(correct) : 0;
      const budget = ofCorrect + (1 - solved) * L(view) || 1;
      const x = (l(rollout) - budget) / budget;
      return { value: isCorrect(rollout) ? Math.max(-0.5 * x + 0.5, 0.1) : Math.min(0.9 * x - 0.1, -0.1) };
    },
  }),
});
