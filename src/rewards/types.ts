/**
 * The interface of a reward. A reward is pure: it sees one generated batch and a snapshot of its own state; the
 * loop alone advances that state, once per generated batch, with `observe`. Evaluation never does.
 */
import type { Group, Rollout } from '../types';

export interface RewardView<State> {
  /** Optimiser updates finished before this batch, from 0. */
  step: number;
  /** L: `maxCompletionLength`. */
  maxLength: number;
  /** The rollout's own group and the whole gathered batch. */
  group: Group;
  batch: readonly Group[];
  state: State;
}

export interface ObserveView {
  step: number;
  maxLength: number;
  batch: readonly Group[];
}

export interface RewardScore {
  value: number;
  /** Named addends of `value`, for tables and metrics. */
  parts?: Record<string, number>;
}

/** A reward with its parameters bound: what the loop calls. */
export interface BoundReward<State = unknown> {
  readonly name: string;
  initialState(context: { maxLength: number }): State;
  /** The state after this batch; must not change its argument. JSON-serialisable. */
  observe(state: State, view: ObserveView): State;
  score(rollout: Rollout, view: RewardView<State>): RewardScore | Promise<RewardScore>;
  /** Numbers of the state worth a line in the metrics, e.g. `acoer/alpha`. */
  metrics(state: State): Record<string, number>;
}

/** What registers a reward. `bind` checks the parameters and throws BAD_CONFIG naming the wrong one. */
export interface RewardDefinition {
  readonly name: string;
  /** One line for `acoer reward --list`. */
  readonly summary: string;
  readonly formula: string;
  readonly source: string;
  readonly defaults: Readonly<Record<string, number | string | boolean>>;
  bind(parameters: Readonly<Record<string, unknown>>): BoundReward;
}
