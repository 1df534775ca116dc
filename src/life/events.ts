/** Events of a run in progress, for the live view and a library user's own display. */
import type { Config, Phase } from '../config';
import type { EvalProgress, EvalSummary } from '../eval';
import type { FetchProgress } from '../hub';
import type { HealthChange } from '../monitor';
import type { Plan, TrainingPlan } from '../plan';
import type { AcceptedChange, CompletionRow, Rollback } from '../run';
import type { Decoding } from '../sampling';
import type { StepMetrics } from '../base/types';
import type { KnownMetrics } from '../base/metric-names';

export type EvalPhase = 'base' | 'step' | 'trained';
export type EvalKind = 'greedy' | 'sampled';

/** One answer to each problem, and which of them were right. */
export interface RunEvaluation extends EvalSummary {
  /** One character per problem, in order: 1 solved, 0 not. Absent in runs of earlier versions. */
  solved?: string;
}

export interface Evaluation {
  greedy: RunEvaluation | null;
  sampled: RunEvaluation | null;
}

/** The step whose evaluation had the highest accuracy; of several, the one with the shortest thinking. */
export interface Best {
  step: number;
  accuracy: number;
  thinkingTokens: number;
}

/** summary.json. */
export interface RunSummary {
  base: Evaluation;
  trained: Evaluation;
  run: {
    directory: string;
    reward: string;
    seed: number;
    steps: number;
    best: Best | null;
    rollbacks: number;
    /** Changed reward files with which the run was resumed; absent if there were none. */
    accepted?: AcceptedChange[];
  };
}

/** Events that every kind of run has. */
export type CommonEvent =
  /** Before `run`, while a model or data set is downloaded from the hub. */
  | ({ type: 'download' } & FetchProgress)
  | {
      type: 'loaded';
      model: string;
      parameters: number;
      trained: number;
      device: string;
      dtype: string;
      /** Of the base's linear weights; null: they are in `dtype`. */
      quantization: string | null;
    }
  | { type: 'step'; index: number; metrics: StepMetrics }
  | { type: 'checkpoint'; step: number; path: string }
  /** A phase has shown no progress for too long; `path` is its dump, null if that could not be written. */
  | { type: 'hang'; phase: Phase; step: number; silentMs: number; path: string | null; message: string }
  | { type: 'warning'; message: string };

/** Means per completion token of examples that are not trained on. */
export interface SftEvaluation {
  /** Negative log-likelihood. */
  loss: number;
  entropy: number;
}

/** summary.json of a supervised run. */
export interface SftSummary {
  run: { directory: string; method: 'sft'; full: boolean; seed: number; steps: number; examples: number };
  /** Mean negative log-likelihood of a completion token in the first and the last update. */
  loss: { first: number; last: number };
  numTokens: number;
  /** Before the first update, after the last, and the lowest; absent when nothing was held out. */
  heldOut?: {
    examples: number;
    base: SftEvaluation;
    trained: SftEvaluation;
    best: { step: number; loss: number };
  };
}

export type SftEvent =
  | CommonEvent
  /** Rows are turned into token ids, which takes minutes for many long ones. At most once a second. */
  | { type: 'encoding'; done: number; total: number }
  | { type: 'run'; directory: string; resumedStep: number | null; examples: number; steps: number }
  | { type: 'training-plan'; plan: TrainingPlan }
  /** An evaluation on held-out examples; step 0 is before the first update. */
  | ({ type: 'held-out'; step: number } & SftEvaluation)
  | { type: 'finished'; summary: SftSummary };

export type RunEvent = TrainEvent | SftEvent;

export type TrainEvent =
  | CommonEvent
  | { type: 'run'; directory: string; config: Config; resumedStep: number | null }
  | { type: 'plan'; plan: Plan }
  /** A server that samples for the run has been found to agree with the trainer; its log-probs' distance in a sentence. */
  | { type: 'sampler'; message: string }
  /** An answer has ended, or a few times a second tokens have been added. */
  | ({ type: 'eval-progress'; phase: EvalPhase; kind: EvalKind } & EvalProgress)
  /** The greedy answer to the first problem of the evaluation. */
  | {
      type: 'answer';
      phase: EvalPhase;
      question: string;
      text: string;
      correct: boolean;
      thinkingTokens: number;
    }
  | { type: 'evaluated'; phase: EvalPhase; kind: EvalKind; summary: EvalSummary }
  /** A completion has ended, or a few times a second tokens have been added. */
  | ({ type: 'decode-progress'; step: number; done: number; total: number } & Decoding)
  /** The completion of median length of a step, every `logCompletions` steps. */
  | { type: 'sample'; step: number; row: CompletionRow }
  | { type: 'health'; change: HealthChange }
  | { type: 'rollback'; rollback: Rollback }
  /** The run is resumed although this has changed, because its user said so. */
  | { type: 'accepted'; change: AcceptedChange };

/** One finished update. */
export interface TrainStep {
  /** From 1. */
  index: number;
  metrics: StepMetrics;
}

/** The evaluation's numbers for a line of metrics.jsonl. */
export function evaluationMetrics(evaluation: Evaluation): KnownMetrics {
  const metrics: KnownMetrics = {};
  for (const kind of ['greedy', 'sampled'] as const) {
    const summary = evaluation[kind];
    if (summary === null) continue;
    metrics[`eval/${kind}_accuracy`] = summary.accuracy;
    metrics[`eval/${kind}_thinking_tokens`] = summary.thinkingTokens;
    metrics[`eval/${kind}_total_tokens`] = summary.totalTokens;
    metrics[`eval/${kind}_accuracy_per_1k_tokens`] = summary.accuracyPer1kTokens;
  }
  return metrics;
}
