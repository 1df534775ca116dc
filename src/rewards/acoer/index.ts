/**
 * The ACOER paper, section 5. alpha_t and B_t come from the controller (`controller.ts`), whose parameters
 * have the paper's values as defaults.
 *
 * Two more parameters are where the authors' released code differs from ours. `openThinking`: `no-bonus`
 * (ours: a correct answer whose thinking never closed earns 1 and is left out of the mean length) or
 * `zero-length` (theirs: its length is 0, so it earns the whole bonus). `noCorrectLength`: `hold` (ours: a
 * batch without a correct answer leaves the length average unchanged) or `zero` (theirs: it enters the
 * average as length 0). With `lengthUnit: chars` and `initialBudget: 4096` as well, all of it is theirs.
 */
import { z } from 'zod';
import { badConfig } from '../../config/problems';
import type { Group, Rollout } from '../../base/types';
import { defineReward, type Formula, type Measures } from '../define';
import { mean } from '../../base/statistics';
import { isCorrect, rolloutsOf } from '../groups';
import {
  type AcoerObservation,
  type AcoerParameters,
  type AcoerState,
  capAlpha,
  controllerParameters,
  efficiency,
  initialAcoerState,
  observeBatch,
} from './controller';

const parameters = {
  ...controllerParameters,
  openThinking: z.enum(['no-bonus', 'zero-length']).default('no-bonus'),
  noCorrectLength: z.enum(['hold', 'zero']).default('hold'),
};

type Parameters = z.output<z.ZodObject<typeof parameters>>;

function checkAlphas({ alphaMin, alphaInit, alphaMax }: AcoerParameters): void {
  if (alphaMin <= alphaInit && alphaInit <= alphaMax) return;
  const message = `alphaMin <= alphaInit <= alphaMax must hold, not ${alphaMin}, ${alphaInit}, ${alphaMax}`;
  throw badConfig([{ path: 'rewardParams.acoer.alphaInit', message }]);
}

/** The whole batch as the controller sees it; `lengthOf` gives null for a length that does not count. */
function observationOf(
  step: number,
  batch: readonly Group[],
  lengthOf: (rollout: Rollout) => number | null,
): AcoerObservation {
  const rollouts = rolloutsOf(batch);
  const correct = rollouts.filter(isCorrect);
  const lengths = correct.map(lengthOf).filter((length) => length !== null);
  return {
    step,
    accuracy: rollouts.length === 0 ? 0 : correct.length / rollouts.length,
    correctLength: lengths.length === 0 ? null : mean(lengths),
  };
}

function formula(given: Parameters, { l, L, ofThinking }: Measures): Formula<AcoerState> {
  checkAlphas(given);
  /** The length of thinking is meaningless until it is closed: null, or 0 as in the authors' code. */
  const lengthOf = (rollout: Rollout): number | null => {
    if (rollout.thinkingClosed || !ofThinking) return l(rollout);
    return given.openThinking === 'zero-length' ? 0 : null;
  };
  return {
    initialState: (context) => initialAcoerState(given, L(context)),
    observe(state, { step, batch }) {
      if (batch.length === 0) return state;
      const seen = observationOf(step, batch, lengthOf);
      const correctLength = seen.correctLength ?? (given.noCorrectLength === 'zero' ? 0 : null);
      return observeBatch(given, state, { ...seen, correctLength });
    },
    score(rollout, { state }) {
      const accuracy = isCorrect(rollout) ? 1 : 0;
      const length = isCorrect(rollout) ? lengthOf(rollout) : null;
      const bonus = length === null ? 0 : state.alpha * efficiency(length, state.budget, given.logScale);
      return { value: accuracy + bonus, parts: { accuracy, bonus } };
    },
    ease: (state, pressure) => capAlpha(given, state, pressure),
    metrics: (state) => ({
      'acoer/alpha': state.alpha,
      'acoer/budget': state.budget,
      ...(state.emaAccuracy !== null && { 'acoer/ema_accuracy': state.emaAccuracy }),
      ...(state.emaCorrectLength !== null && { 'acoer/ema_correct_length': state.emaCorrectLength }),
    }),
    snapshot: ({ alpha, budget, emaAccuracy, emaCorrectLength }) => ({
      alpha,
      budget,
      emaAccuracy,
      emaCorrectLength,
    }),
  };
}

export const acoer = defineReward({
  name: 'acoer',
  summary: 'Adaptive correct-only efficiency reward: a bonus for correct answers within an adaptive budget.',
  formula: 'c + c * alpha_t * log(1 + k(1 - min(l/B_t, 1))) / log(1 + k)',
  source: "the ACOER paper; controller as in the authors' released code, lengths in tokens",
  taxonomy: { scope: 'history', correct: 'shorter', incorrect: 'none', adaptive: true },
  length: 'thinking',
  parameters,
  reward: formula,
});
