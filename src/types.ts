/** The records that travel through a step, in the order they come to be. */
import type { KnownMetrics } from './metric-names';

export interface ChatMessage {
  role: 'system' | 'user' | 'assistant';
  content: string;
}

/** One row of a dataset. */
export interface Problem {
  /** Stable within the dataset: its row number unless the data names one. */
  id: string;
  /** The text put into the prompt template. */
  question: string;
  /** The reference answer as the data has it. */
  gold: string;
  /** Difficulty as the data names it ("1".."5" for the tiny task), or null. */
  level: string | null;
  /** What the data set says about judging answers, besides the reference. */
  grading?: Grading;
}

export interface Grading {
  /** A number this far from the reference, or less, equals it. */
  tolerance?: number;
  /** `16, 3, 1, 1` is not `16, 3, 1`: what stands twice in a list counts twice. */
  countRepeats?: boolean;
}

/** A problem rendered through the chat template. */
export interface Prompt {
  problem: Problem;
  /** Position in the run's data order, from 0: the prompt's key in every random stream. */
  index: number;
  text: string;
  ids: Int32Array;
  /** The chat template already opened `<think>` at the end of the prompt. */
  thinkOpened: boolean;
}

export const VERDICT_STATUSES = [
  'correct',
  'incorrect',
  'unparseable',
  'timeout',
  'gold-unparseable',
] as const;
export type VerdictStatus = (typeof VERDICT_STATUSES)[number];

export interface Verdict {
  correct: boolean;
  status: VerdictStatus;
  /** The answer found in the completion, or null. */
  extracted: string | null;
}

/** Counted on token ids (tokenizer/thinking.ts). */
export interface Thinking {
  thinkingTokens: number;
  thinkingClosed: boolean;
}

/**
 * The rest of a completion: every id is thinking of the first block, thinking of a later one, a tag, or
 * answer. Absent where nobody counted (a recorded line).
 */
export interface Outside {
  /** Thinking in `<think>` blocks after the first. */
  laterThinkingTokens?: number;
  /**
   * Outside every block, the stop id included; 0 for a completion without `<think>`, which counts as
   * thinking.
   */
  answerTokens?: number;
}

/** One sampled completion with its verdict. */
export interface Rollout extends Thinking, Outside {
  prompt: Prompt;
  sample: number;
  ids: Int32Array;
  /** Of the sampler, at the sampling temperature. */
  logprobs: Float64Array;
  entropies: Float64Array;
  finish: 'stop' | 'length' | 'cancelled';
  text: string;
  totalTokens: number;
  verdict: Verdict;
  /** A closed `<think>...</think>` and a `\boxed{}`. */
  format: boolean;
}

export interface Group {
  prompt: Prompt;
  rollouts: Rollout[];
}

/** What a reward made of a rollout: the sum that trains and its named components. */
export interface Reward {
  total: number;
  parts: Record<string, number>;
}

/**
 * One line of metrics.jsonl; docs/metrics.md says what each number is. A reward of your own may add names:
 * those are numbers, too. What a step has nothing to say about is left out.
 */
export interface StepMetrics extends KnownMetrics {
  [name: string]: number | undefined;
}
