/**
 * A tau of 0 means L / 2. `wrongPenaltySign` is `table` (the formula as written, which rewards wrong
 * answers for length: dr/dl = +beta/L) or `theory` (as in the paper's proofs, which penalise them for it:
 * -(1 - c) beta (1 - f(l)), or -beta l/L for the linear shape).
 */
import { z } from 'zod';
import { defineReward, type Measures, nonNegative, sumOf } from './define';
import { correctness } from './groups';
import { SHAPES, shapeOf } from './shapes';
import type { Rollout } from '../base/types';
import type { RewardScore, RewardView } from './types';

export const wrongPenaltySign = { wrongPenaltySign: z.enum(['table', 'theory']).default('table') };

interface GeneralParameters {
  alpha: number;
  beta: number;
  wrongPenaltySign: 'table' | 'theory';
}

/** The general form for one shape f(l, L). */
export function generalForm(
  { alpha, beta, wrongPenaltySign: sign }: GeneralParameters,
  shape: (l: number, L: number) => number,
  { l, L }: Measures,
) {
  return (rollout: Rollout, view: RewardView<null>): RewardScore => {
    const f = shape(l(rollout), L(view));
    const c = correctness(rollout);
    const penalty = sign === 'table' ? f : 1 - f;
    return sumOf(c, c * alpha * f - (1 - c) * beta * penalty);
  };
}

export const general = defineReward({
  name: 'general',
  summary: "The paper's general form, with any alpha, beta and shape of f.",
  formula: 'c + c * alpha * f(l) - (1 - c) * beta * f(l)',
  source: 'the ACOER paper, equation 2',
  taxonomy: { scope: 'completion', correct: 'shorter', incorrect: 'longer' },
  length: 'thinking',
  parameters: {
    alpha: nonNegative().default(0.3),
    beta: nonNegative().default(0.1),
    f: z.enum(SHAPES).default('linear'),
    logScale: z.number().positive().default(5),
    tau: nonNegative().default(0),
    ...wrongPenaltySign,
  },
  reward: (parameters, measures) => ({
    score: generalForm(parameters, shapeOf(parameters.f, parameters), measures),
  }),
});
