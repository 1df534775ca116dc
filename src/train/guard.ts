/** The collapse guard of a run: the monitor with the run's settings. */
import { groupsPerBatch, updatesPerBatch } from '../base/batches';
import type { Config } from '../config';
import {
  monitorMetrics,
  monitorSettings,
  observe,
  type MonitorContext,
  type MonitorState,
  type Observation,
} from '../monitor';
import type { Rollback } from '../run';
import type { KnownMetrics } from '../base/metric-names';
import type { WeightedReward } from '../rewards/types';
import type { Eased, LoopState } from '../grpo/context';
import type { Evaluation } from '../life/events';

export interface GuardState {
  monitor: MonitorState;
  /** Step of the newest checkpoint written while the run was healthy; null: none yet. */
  healthy: number | null;
  /** The reason for a collapse that has not been acted on yet. */
  collapse: string | null;
}

export interface CollapseGuard {
  /** @param base the evaluation of the base model; null: there was none */
  observe(state: MonitorState, metrics: KnownMetrics, base: Evaluation | null): Observation;
  metrics(state: MonitorState, eased: Eased): KnownMetrics;
}

/**
 * What the monitor needs to know about a run. The sampled evaluation is preferred, because greedy decoding
 * hides a loss of certainty.
 */
export function monitorContext(
  config: Pick<Config, 'promptsPerStep' | 'stepsPerGeneration' | 'numIterations' | 'evalSteps' | 'maxSteps'>,
  base: Evaluation | null,
): MonitorContext {
  const { evalSteps, maxSteps } = config;
  const kind = base?.sampled ? 'sampled' : 'greedy';
  const summary = base?.[kind] ?? null;
  const between = evalSteps > 0 && evalSteps < maxSteps;
  return {
    groupsPerBatch: groupsPerBatch(config),
    updatesPerBatch: updatesPerBatch(config),
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

/** A checkpoint's state after the rollback: less efficiency pressure, different seeds. */
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
