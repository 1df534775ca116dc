/**
 * The paper's general form (equation 2). A tau of 0 means L / 2. `wrongPenaltySign` is `table` (the formula as written,
 * which rewards wrong answers for length: dr/dl = +beta/L) or `theory` (as in the paper's proofs, which penalise them for
 * it: -(1 - c) beta (1 - f(l)), or -beta l/L for the linear shape).
 */
import { z } from 'zod';
import type { Rollout } from '../base/types';
import { efficiency } from './acoer/controller';
import { defineReward, type Measures, nonNegative, sumOf } from './define';
import { correctness } from './groups';
import type { RewardScore, RewardView } from './types';

/** f(l): how length enters the general form. All start at 1 for l = 0 and fall. */
const SHAPES = ['linear', 'exp', 'log', 'binary'] as const;
type ShapeName = (typeof SHAPES)[number];

interface ShapeOptions {
  /** k of the log shape. */
  logScale: number;
  /** tau of the binary shape, in tokens; 0 means L / 2. */
  tau: number;
}

/** `log` is ACOER's g(l/L) = log(1 + k(1 - min(l/L, 1))) / log(1 + k). */
function shapeOf(name: ShapeName, { logScale, tau }: ShapeOptions) {
  return (l: number, L: number): number => {
    switch (name) {
      case 'linear':
        return 1 - l / L;
      case 'exp':
        return Math.exp(-l / L);
      case 'log':
        return efficiency(l, L, logScale);
      case 'binary':
        return l <= (tau || L / 2) ? 1 : 0;
    }
  };
}

export const wrongPenaltySign = { wrongPenaltySign: z.enum(['table', 'theory']).default('table') };

interface GeneralParameters {
  alpha: number;
  beta: number;
  wrongPenaltySign: 'table' | 'theory';
}

/** The general form for one shape f(l, L). */
function generalForm(
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

const linear = shapeOf('linear', { logScale: 1, tau: 0 });

/** With `wrongPenaltySign: table` wrong answers are rewarded for length; beta0 leaves them alone. */
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

/** The paper gives no formula for this corollary. */
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
