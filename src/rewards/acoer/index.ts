/** ACOER: correct answers earn a bonus for thinking within an adaptive budget; wrong answers feel no length. */
import { z } from 'zod';

import { badConfig } from '../../config/problems';
import type { Group } from '../../types';
import { bindParameters, defaultsOf } from '../parameters';
import type { BoundReward, RewardDefinition } from '../types';
import {
  type AcoerObservation,
  type AcoerParameters,
  type AcoerState,
  efficiency,
  initialAcoerState,
  observeBatch,
} from './controller';

export type { AcoerObservation, AcoerParameters, AcoerState } from './controller';
export { efficiency, initialAcoerState, observeBatch } from './controller';

const schema = z.strictObject({
  alphaInit: z.number().min(0).default(0.02),
  alphaMin: z.number().min(0).default(0.01),
  alphaMax: z.number().min(0).default(0.5),
  alphaUp: z.number().min(1).default(1.02),
  alphaDown: z.number().positive().max(1).default(0.95),
  emaSpan: z.number().min(1).default(50),
  checkWindow: z.int().min(1).default(100),
  accDropThreshold: z.number().min(0).default(0.02),
  budgetRatio: z.number().positive().default(0.85),
  minBudget: z.number().positive().default(512),
  logScale: z.number().positive().default(5),
  initialBudget: z.number().min(0).default(0),
  warmupSteps: z.int().min(0).default(200),
});

function bindAcoer(given: Readonly<Record<string, unknown>>): AcoerParameters {
  const parameters = bindParameters('acoer', schema, given);
  const { alphaMin, alphaInit, alphaMax } = parameters;
  if (!(alphaMin <= alphaInit && alphaInit <= alphaMax)) {
    const message = `alphaMin <= alphaInit <= alphaMax must hold, not ${alphaMin}, ${alphaInit}, ${alphaMax}`;
    throw badConfig([{ path: 'rewardParams.acoer.alphaInit', message }]);
  }
  return parameters;
}

/** The whole gathered batch as the controller sees it. */
function observationOf(step: number, batch: readonly Group[]): AcoerObservation {
  const rollouts = batch.flatMap((group) => group.rollouts);
  const correct = rollouts.filter((rollout) => rollout.verdict.correct);
  const closed = correct.filter((rollout) => rollout.thinkingClosed);
  const lengthSum = closed.reduce((sum, rollout) => sum + rollout.thinkingTokens, 0);
  return {
    step,
    accuracy: rollouts.length === 0 ? 0 : correct.length / rollouts.length,
    correctLength: closed.length === 0 ? null : lengthSum / closed.length,
  };
}

function bound(parameters: AcoerParameters): BoundReward<AcoerState> {
  return {
    name: 'acoer',
    initialState: ({ maxLength }) => initialAcoerState(parameters, maxLength),
    observe: (state, { step, batch }) =>
      batch.length === 0 ? state : observeBatch(parameters, state, observationOf(step, batch)),
    score(rollout, { state }) {
      const accuracy = rollout.verdict.correct ? 1 : 0;
      // Length means nothing until the thinking is closed, so such an answer earns no bonus.
      const bonus =
        rollout.verdict.correct && rollout.thinkingClosed
          ? state.alpha * efficiency(rollout.thinkingTokens, state.budget, parameters.logScale)
          : 0;
      return { value: accuracy + bonus, parts: { accuracy, bonus } };
    },
    metrics: (state) => ({
      'acoer/alpha': state.alpha,
      'acoer/budget': state.budget,
      ...(state.emaAccuracy !== null && { 'acoer/ema_accuracy': state.emaAccuracy }),
      ...(state.emaCorrectLength !== null && { 'acoer/ema_correct_length': state.emaCorrectLength }),
    }),
  };
}

export const acoer: RewardDefinition = {
  name: 'acoer',
  summary: 'Adaptive correct-only efficiency reward: a bonus for correct answers within an adaptive budget.',
  formula: 'c + c * alpha_t * log(1 + k(1 - min(l / B_t, 1))) / log(1 + k)',
  source: "the ACOER paper; controller as in the authors' released code, lengths in tokens",
  defaults: defaultsOf(schema),
  bind: (parameters) => bound(bindAcoer(parameters)) as BoundReward,
};
