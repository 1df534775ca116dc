import { defineReward, nonNegative, sumOf } from './define';
import { correctness } from './groups';

export const grpoLp = defineReward({
  name: 'grpo-lp',
  summary: 'A linear penalty on thinking, for correct and wrong answers alike (GRPO+LP).',
  formula: 'c - alpha * l/L',
  source: 'the ACOER paper, table of rewards',
  taxonomy: { scope: 'completion', correct: 'shorter', incorrect: 'shorter' },
  length: 'thinking',
  parameters: { alpha: nonNegative().default(0.3) },
  reward: ({ alpha }, { l, L }) => ({
    score: (rollout, view) => sumOf(correctness(rollout), (-alpha * l(rollout)) / L(view)),
  }),
});
