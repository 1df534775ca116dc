/** The records that pass through a step, in the order they are created. */
import type { Verdict } from '#verify/types';
import type { GeneratedSequence } from '../engine/types';
import type { KnownMetrics } from './metric-names';

export { VERDICT_STATUSES, type Verdict, type VerdictStatus } from '#verify/types';

export interface ChatMessage {
  role: 'system' | 'user' | 'assistant';
  content: string;
}

/** The columns of a row by name, as values that JSON can hold. */
export type Row = Readonly<Record<string, unknown>>;

/** One row of a dataset. */
export interface Problem {
  /** Stable within the dataset: the row number unless the data has an id. */
  id: string;
  /** The text put into the prompt template: of a chat, the last message, which is the user's. */
  question: string;
  /** The messages before it in a chat: the system's, and earlier turns. Absent without any. */
  readonly before?: readonly ChatMessage[];
  /** The reference answer as in the data; null if the row has none, which only some judges allow. */
  gold: string | null;
  /** Difficulty as in the data ("1".."5" for the tiny task), or null. */
  level: string | null;
  /** What the data set says about judging answers, besides the reference. */
  grading?: Grading;
  /** Every column of the row, for rewards and judges; absent for generated data. */
  readonly row?: Row;
}

export interface Grading {
  /** A number at most this far from the reference equals it. */
  tolerance?: number;
  /** Count repeated list items separately: `16, 3, 1, 1` is not `16, 3, 1`. */
  countRepeats?: boolean;
}

/** A problem rendered through the chat template. */
export interface Prompt {
  problem: Problem;
  /** Position in the run's data order, from 0, which is the prompt's key in every random stream. */
  index: number;
  text: string;
  ids: Int32Array;
  /** Whether the chat template opened `<think>` at the end of the prompt. */
  thinkOpened: boolean;
}

/** Counted on token ids (tokenizer/thinking.ts). */
export interface Thinking {
  thinkingTokens: number;
  thinkingClosed: boolean;
}

/** Every other id is thinking of a later block, a tag, or answer. Absent if not counted (in a recorded line). */
export interface Outside {
  /** Thinking tokens in `<think>` blocks after the first. */
  laterThinkingTokens?: number;
  /** Tokens outside every block, with the stop id; 0 without `<think>`: all is thinking then. */
  answerTokens?: number;
}

/** One sampled completion with its verdict. */
export interface Rollout
  extends Thinking, Outside, Omit<GeneratedSequence, 'request' | 'entropies' | 'finish'> {
  prompt: Prompt;
  /** One that is to go on is no rollout yet. */
  finish: Exclude<GeneratedSequence['finish'], 'partial'>;
  /** null: the sampler does not know them. */
  entropies: Float64Array | null;
  text: string;
  totalTokens: number;
  verdict: Verdict;
  /** Whether it has a closed `<think>...</think>` and a `\boxed{}`. */
  format: boolean;
}

export interface Group {
  prompt: Prompt;
  rollouts: Rollout[];
}

/** What a reward notes of a completion for the table of completions. */
export type ColumnValue = string | number | boolean | null;

/** The reward of a rollout: the total used for training and its named components. */
export interface Reward {
  total: number;
  parts: Record<string, number>;
  /** What the rewards noted besides; absent if nothing. */
  columns?: Readonly<Record<string, ColumnValue>>;
}

/** One line of metrics.jsonl (docs/metrics.md), without numbers that do not apply; a user's reward may add some. */
export interface StepMetrics extends KnownMetrics {
  [name: string]: number | undefined;
}

/** What the collapse monitor says of a run, in the order of its metric `monitor/state`: 0, 1, 2. */
export const HEALTH = ['healthy', 'warning', 'collapsed'] as const;

export type Health = (typeof HEALTH)[number];
