/** The collapse guard of a run: the monitor with the run's settings, and what a rollback comes to. */
import type { Config } from '../config';
import { AcoerError } from '../errors';
import {
  monitorMetrics,
  monitorSettings,
  observe,
  type MonitorContext,
  type MonitorState,
  type Observation,
} from '../monitor';
import type { Rollback } from '../run';
import type { KnownMetrics } from '../metric-names';
import type { Eased, LoopState, WeightedReward } from '../grpo/context';
import type { Evaluation } from './events';

export interface GuardState {
  monitor: MonitorState;
  /** Step of the newest checkpoint written in health; null: none yet. */
  healthy: number | null;
  /** The reason of a collapse that is not acted on yet. */
  collapse: string | null;
}

export interface CollapseGuard {
  /** @param base the evaluation of the base model; null: there was none */
  observe(state: MonitorState, metrics: KnownMetrics, base: Evaluation | null): Observation;
  metrics(state: MonitorState, eased: Eased): KnownMetrics;
}

/** What the monitor has to know of a run. The sampled evaluation comes first: greedy decoding hides a loss of certainty. */
export function monitorContext(
  config: Pick<Config, 'promptsPerStep' | 'stepsPerGeneration' | 'numIterations' | 'evalSteps' | 'maxSteps'>,
  base: Evaluation | null,
): MonitorContext {
  const { promptsPerStep, stepsPerGeneration, numIterations, evalSteps, maxSteps } = config;
  const kind = base?.sampled ? 'sampled' : 'greedy';
  const summary = base?.[kind] ?? null;
  const between = evalSteps > 0 && evalSteps < maxSteps;
  return {
    groupsPerBatch: promptsPerStep * stepsPerGeneration,
    updatesPerBatch: stepsPerGeneration * numIterations,
    base: summary && { accuracy: summary.accuracy, thinkingTokens: summary.thinkingTokens },
    evaluations: between && summary !== null ? { kind, problems: summary.n } : null,
  };
}

export function guardOf(config: Config): CollapseGuard {
  const settings = monitorSettings(config.monitor);
  return {
    observe: (state, metrics, base) => observe(state, metrics, settings, monitorContext(config, base)),
    metrics: (state, { rollbacks, pressure }) => ({
      ...monitorMetrics(state),
      'monitor/rollbacks': rollbacks,
      'monitor/pressure': pressure,
    }),
  };
}

/**
 * Where a collapse leads back to.
 * @throws COLLAPSED when the run is to end: `onCollapse: stop`, no rollback left, or no healthy checkpoint
 */
export function planRollback(
  { onCollapse, maxRollbacks, rollbackPressure }: Config,
  { loop, guard }: { loop: LoopState; guard: GuardState },
  checkpoints: readonly number[],
  reason: string,
): Rollback {
  const { rollbacks, pressure } = loop.eased;
  const end = (why: string) => new AcoerError('COLLAPSED', `Ended after step ${loop.step}. ${reason} ${why}`);
  if (onCollapse === 'stop') throw end('--resume goes on from here all the same.');
  if (rollbacks >= maxRollbacks) throw end(`maxRollbacks = ${maxRollbacks} rollbacks were made before.`);
  if (guard.healthy === null || !checkpoints.includes(guard.healthy)) {
    throw end('There is no healthy checkpoint to go back to.');
  }
  const number = rollbacks + 1;
  return { number, from: loop.step, to: guard.healthy, pressure: pressure * rollbackPressure, reason };
}

/** The state of a checkpoint as a rollback goes on from it. */
export function easedState(
  state: LoopState,
  { number, pressure }: Rollback,
  rewards: readonly WeightedReward[],
): LoopState {
  const rewardStates = { ...state.rewardStates };
  for (const { reward } of rewards) {
    if (reward.ease && pressure < 1)
      rewardStates[reward.name] = reward.ease(rewardStates[reward.name], pressure);
  }
  return { ...state, rewardStates, eased: { rollbacks: number, pressure } };
}
