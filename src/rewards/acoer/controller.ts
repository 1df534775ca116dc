/**
 * ACOER's controller as a pure state transition: it raises alpha while accuracy holds, lowers it when
 * accuracy fell over the last `checkWindow` batches, and keeps the budget a little below the mean length of
 * correct answers. Lengths are thinking tokens.
 */
import { z } from 'zod';
import { nonNegative } from '../define';

/** The defaults are the paper's values. */
export const controllerParameters = {
  alphaInit: nonNegative().default(0.02),
  alphaMin: nonNegative().default(0.01),
  alphaMax: nonNegative().default(0.5),
  /** Factors applied to alpha when accuracy held, and when it fell. */
  alphaUp: z.number().min(1).default(1.02),
  alphaDown: z.number().positive().max(1).default(0.95),
  /** An exponential moving average of span n weighs the newest value 2 / (n + 1). */
  emaSpan: z.number().min(1).default(50),
  /** How many batches back accuracy is compared with, counting the current one. */
  checkWindow: z.int().min(1).default(100),
  /** Largest drop of the accuracy average that still counts as holding; a fraction. */
  accDropThreshold: nonNegative().default(0.02),
  /** B = max(minBudget, budgetRatio * average correct length). */
  budgetRatio: z.number().positive().default(0.85),
  minBudget: z.number().positive().default(512),
  /** k of the bonus log(1 + k(1 - min(l/B, 1))) / log(1 + k). */
  logScale: z.number().positive().default(5),
  /** B until alpha first moves; 0 means the longest completion allowed. */
  initialBudget: nonNegative().default(0),
  /** Updates before alpha and B may move. */
  warmupSteps: z.int().min(0).default(200),
};

export type AcoerParameters = z.output<z.ZodObject<typeof controllerParameters>>;

/** JSON-serialisable; goes into checkpoints. */
export interface AcoerState {
  alpha: number;
  budget: number;
  emaAccuracy: number | null;
  /** null until a batch has a correct answer with closed thinking. */
  emaCorrectLength: number | null;
  /** The last `checkWindow` values of emaAccuracy, oldest first. */
  accuracyHistory: readonly number[];
  /** Set when the collapse guard rolls back; alpha stays at or below it. */
  alphaCap?: number;
}

/** What the controller sees of a generated batch. */
export interface AcoerObservation {
  /** Number of updates before this batch. */
  step: number;
  /** Fraction of correct answers, 0..1. */
  accuracy: number;
  /** Mean thinking tokens of the correct answers that closed their thinking; null when there is none. */
  correctLength: number | null;
}

export function initialAcoerState(parameters: AcoerParameters, maxLength: number): AcoerState {
  return {
    alpha: parameters.alphaInit,
    budget: parameters.initialBudget === 0 ? maxLength : parameters.initialBudget,
    emaAccuracy: null,
    emaCorrectLength: null,
    accuracyHistory: [],
  };
}

/** Exponential moving average; the first value is taken as it is. */
function average(previous: number | null, value: number, span: number): number {
  const weight = 2 / (span + 1);
  return previous === null ? value : weight * value + (1 - weight) * previous;
}

/** The state after a batch that was rewarded under `state`. */
export function observeBatch(
  parameters: AcoerParameters,
  state: AcoerState,
  { step, accuracy, correctLength }: AcoerObservation,
): AcoerState {
  const { checkWindow, emaSpan } = parameters;
  const emaAccuracy = average(state.emaAccuracy, accuracy, emaSpan);
  // A batch without a correct answer says nothing about their length.
  const emaCorrectLength =
    correctLength === null ? state.emaCorrectLength : average(state.emaCorrectLength, correctLength, emaSpan);
  const accuracyHistory = [...state.accuracyHistory, emaAccuracy].slice(-checkWindow);
  const averaged = { ...state, emaAccuracy, emaCorrectLength, accuracyHistory };
  if (step < parameters.warmupSteps || accuracyHistory.length < checkWindow) return averaged;

  const fell = accuracyHistory[0]! - emaAccuracy > parameters.accDropThreshold;
  return {
    ...averaged,
    alpha: fell
      ? Math.max(parameters.alphaMin, state.alpha * parameters.alphaDown)
      : Math.min(state.alphaCap ?? parameters.alphaMax, state.alpha * parameters.alphaUp),
    budget:
      emaCorrectLength !== null && emaCorrectLength > 0
        ? Math.max(parameters.minBudget, parameters.budgetRatio * emaCorrectLength)
        : state.budget,
  };
}

/** alpha capped at `pressure` times alphaMax (at least alphaMin), or at an earlier cap if that is lower. */
export function capAlpha(parameters: AcoerParameters, state: AcoerState, pressure: number): AcoerState {
  const { alphaMin, alphaMax } = parameters;
  const alphaCap = Math.min(state.alphaCap ?? alphaMax, Math.max(alphaMin, pressure * alphaMax));
  return { ...state, alpha: Math.min(state.alpha, alphaCap), alphaCap };
}

/** The bonus before alpha, in 0..1: 1 at length 0, 0 at the budget and beyond. */
export function efficiency(thinkingTokens: number, budget: number, logScale: number): number {
  const spent = Math.min(thinkingTokens / budget, 1);
  return Math.log1p(logScale * (1 - spent)) / Math.log1p(logScale);
}
