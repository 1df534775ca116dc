/**
 * The interface of a reward. A reward is pure: it sees one generated batch and a snapshot of its own state;
 * only the loop advances that state, once per generated batch, with `observe`. Evaluation never does.
 */
import type { ColumnValue, Group, Rollout } from '../base/types';

export interface ObserveView {
  /** Number of optimiser updates before this batch. */
  step: number;
  /** L: `maxCompletionLength`. */
  maxLength: number;
  /** The whole gathered batch. */
  batch: readonly Group[];
}

export interface RewardView<State> extends ObserveView {
  /** The rollout's own group. */
  group: Group;
  state: State;
}

export interface RewardScore {
  value: number;
  /** Named terms that sum to `value`, for tables and metrics. */
  parts?: Record<string, number>;
  /** Noted of this completion: columns of the table of completions (`completionsSteps`). */
  columns?: Readonly<Record<string, ColumnValue>>;
  /** Noted of this completion: metrics.jsonl gets the mean over the batch's completions that have the number. */
  metrics?: Readonly<Record<string, number>>;
}

/** A reward with its parameters bound: what the loop calls. */
export interface BoundReward<State = unknown> {
  readonly name: string;
  initialState(context: { maxLength: number }): State;
  /** The state after this batch, JSON-serialisable; must not change its argument. Only a user's may be a promise. */
  observe(state: State, view: ObserveView): State | Promise<State>;
  score(rollout: Rollout, view: RewardView<State>): RewardScore | Promise<RewardScore>;
  /**
   * The state with the controller limited from now on to `pressure` (0..1) of its full strength. Called when
   * the collapse guard rolls back. For a reward without it, only the advantages are eased.
   */
  ease?(state: State, pressure: number): State;
  /** Numbers of the state for the metrics, e.g. `acoer/alpha`. */
  metrics(state: State): Record<string, number>;
  /** A summary of the state for `acoer reward --state`; null means not known yet. */
  snapshot?(state: State): Record<string, number | null>;
  /** Its lengths need `<think>` and `</think>`: a model whose vocabulary lacks them is rejected. */
  readonly needsThinking?: boolean;
  /** No call takes long, or the reward itself stops one that does, so the loop sets no time limit. */
  readonly keepsTime?: boolean;
  /** Frees its resources (a worker thread). Called once, however the run ends. */
  close?(): Promise<void>;
}

/** A reward of a run, with its weight in the sum. */
export interface WeightedReward {
  reward: BoundReward;
  weight: number;
}

/** Where length is pushed, all else equal; `target` means towards a length from both sides. */
export type Pressure = 'shorter' | 'longer' | 'target' | 'none';

/** The paper's design dimensions (section 3.2), and what the reward depends on. */
export interface RewardTaxonomy {
  /** What a value depends on besides the completion: its group, its batch, or a memory of earlier batches. */
  readonly scope: 'completion' | 'group' | 'batch' | 'history';
  /** Pressure on the length of correct and of incorrect answers, with default parameters. */
  readonly correct: Pressure;
  readonly incorrect: Pressure;
  /** |dr/dl| has a bound that depends only on the parameters and L, not on the group. */
  readonly bounded: boolean;
  /** No jumps as l changes. */
  readonly continuous: boolean;
  /** Its pressure changes during training, so it keeps state. */
  readonly adaptive: boolean;
}

/** A registered reward. `bind` checks the parameters and throws BAD_CONFIG naming the wrong one. */
export interface RewardDefinition {
  readonly name: string;
  /** One line for `acoer reward --list`. */
  readonly summary: string;
  readonly formula: string;
  readonly source: string;
  readonly defaults: Readonly<Record<string, number | string | boolean>>;
  /** Every built-in reward has it; a user's may omit it. */
  readonly taxonomy?: RewardTaxonomy;
  bind(parameters: Readonly<Record<string, unknown>>): BoundReward;
}
