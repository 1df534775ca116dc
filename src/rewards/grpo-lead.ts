/** The published version is `grpo-lead-original`. */
import { defineReward } from './define';
import { isCorrect } from './groups';

export const grpoLead = defineReward({
  name: 'grpo-lead',
  summary: 'Correct answers decay with length, wrong ones cost 1 (GRPO-LEAD as the ACOER paper gives it).',
  formula: 'e^(-l/L) if correct, -1 if not',
  source: 'the ACOER paper, table of rewards',
  taxonomy: { scope: 'completion', correct: 'shorter', incorrect: 'none' },
  length: 'thinking',
  parameters: {},
  reward: (_, { l, L }) => ({
    score: (rollout, view) => ({ value: isCorrect(rollout) ? Math.exp(-l(rollout) / L(view)) : -1 }),
  }),
});
