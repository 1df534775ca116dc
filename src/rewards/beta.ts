/** With `wrongPenaltySign: table` wrong answers are rewarded for length (`general.ts`); beta0 leaves them alone. */
import { defineReward, nonNegative } from './define';
import { generalForm, wrongPenaltySign } from './general';
import { shapeOf } from './shapes';

const linear = shapeOf('linear', { logScale: 1, tau: 0 });

const ablation = (name: string, beta: number) =>
  defineReward({
    name,
    summary: `A brevity bonus for correct answers, and weight ${beta} on the length of wrong ones (ablation).`,
    formula: 'c + alpha * c * (1 - l/L) - beta * (1 - c) * (1 - l/L)',
    source: 'the ACOER paper, table of rewards',
    taxonomy: { scope: 'completion', correct: 'shorter', incorrect: beta === 0 ? 'none' : 'longer' },
    length: 'thinking',
    parameters: {
      alpha: nonNegative().default(0.3),
      beta: nonNegative().default(beta),
      ...wrongPenaltySign,
    },
    reward: (parameters, measures) => ({ score: generalForm(parameters, linear, measures) }),
  });

export const beta0 = ablation('beta0', 0);
export const beta001 = ablation('beta0.01', 0.01);
export const beta005 = ablation('beta0.05', 0.05);
export const beta010 = ablation('beta0.10', 0.1);
