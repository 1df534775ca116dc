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
  /** The state after this batch; must not change its argument. JSON-serialisable. Only a user's may be a promise. */
  observe(state: State, view: ObserveView): State | Promise<State>;
  score(rollout: Rollout, view: RewardView<State>): RewardScore | Promise<RewardScore>;
  /**
   * The state with the controller held, from now on, to `pressure` (0..1) of its strongest: called at a rollback of the
   * collapse guard. A reward without it is eased by its advantages alone.
   */
  ease?(state: State, pressure: number): State;
  /** Numbers of the state worth a line in the metrics, e.g. `acoer/alpha`. */
  metrics(state: State): Record<string, number>;
  /** The state in short, for `acoer reward --state`; null is a number not known yet. */
  snapshot?(state: State): Record<string, number | null>;
  /** Its lengths mean nothing without `<think>` and `</think>`: a model whose vocabulary lacks them is refused. */
  readonly needsThinking?: boolean;
  /** No call takes long, or it ends one that does itself and names the sample: the loop sets no limit of its own. */
  readonly keepsTime?: boolean;
  /** Frees what it holds (a worker thread). Called once, when the run ends however it ends. */
  close?(): Promise<void>;
}

/** Where a longer answer of its kind, all else equal, is pushed: `target`, towards a length from both sides. */
export type Pressure = 'shorter' | 'longer' | 'target' | 'none';

/** The paper's design dimensions (section 3.2), and what the reward looks at. */
export interface RewardTaxonomy {
  /** What a value depends on besides the completion: its group, its batch, or what is remembered of earlier ones. */
  readonly scope: 'completion' | 'group' | 'batch' | 'history';
  /** Which way the length of correct and of incorrect answers is pressed, with default parameters. */
  readonly correct: Pressure;
  readonly incorrect: Pressure;
  /** |dr/dl| has a bound that the parameters and L alone set, whatever the group. */
  readonly bounded: boolean;
  /** No jumps in l. */
  readonly continuous: boolean;
  /** Its pressure moves in the course of training: it keeps state. */
  readonly adaptive: boolean;
}

/** What registers a reward. `bind` checks the parameters and throws BAD_CONFIG naming the wrong one. */
export interface RewardDefinition {
  readonly name: string;
  /** One line for `acoer reward --list`. */
  readonly summary: string;
  readonly formula: string;
  readonly source: string;
  readonly defaults: Readonly<Record<string, number | string | boolean>>;
  /** Of every built-in reward; a user's may leave it out. */
  readonly taxonomy?: RewardTaxonomy;
  bind(parameters: Readonly<Record<string, unknown>>): BoundReward;
}
