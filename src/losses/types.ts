/**
 * The interface of a loss: a pure function of flat arrays with one number per completion token, the sequences
 * of a micro-batch laid end to end. It returns the loss and its derivative with respect to every log-prob;
 * the engine's backward pass does the rest.
 */
import type { z } from 'zod';
import type { KnownMetrics } from '../base/metric-names';

export interface LossBatch {
  /** [B + 1]; sequence b has the completion tokens offsets[b] to offsets[b + 1] - 1. */
  offsets: Int32Array;
  /** [N] log-probs of the trained policy at the sampling temperature. */
  logprobs: Float64Array;
  /** [B] */
  advantages: Float64Array;
  /** [N]; 0 excludes a token from the loss and from every count. */
  mask: Uint8Array;
  /** [N] log-probs before the first update on this batch; null means on-policy: `logprobs`, detached. */
  oldLogprobs: Float64Array | null;
  /** [N] log-probs of the base model; null when beta is 0. */
  refLogprobs: Float64Array | null;
  /** [N] factors on each token's policy loss (corrections.ts), in vespo on its weight; null means 1. */
  importanceWeights: Float64Array | null;
  /** [N]; 0 drops a token's policy loss, but neither its KL term nor its place in counts; null drops none. */
  kept: Uint8Array | null;
}

/** Settings that every loss may use, under TRL's names. */
export interface LossSettings {
  /** One importance ratio per token, or per sequence (GSPO). */
  level: 'token' | 'sequence';
  epsilonLow: number;
  /** For cispo, the bound on the ratio itself. */
  epsilonHigh: number;
  /** Bound on the unclipped ratio; null means none. */
  delta: number | null;
  /** Weight of the KL term; 0 turns it off. */
  beta: number;
  /** Multiply the KL estimate by the importance ratio. */
  klBiasCorrection: boolean;
  /** The divisor of the whole update, from `normalizer`, however it is split into micro-batches. */
  normalizer: number;
}

export interface LossResult {
  /** This micro-batch's share of the update's loss. */
  loss: number;
  /** [N] derivative of the loss with respect to each log-prob. */
  slopes: Float64Array;
  /** Sum of the KL estimates over the unmasked tokens. */
  klSum: number;
  /** [B] each: per-sequence measurements for the loss's metrics. */
  measures: Readonly<Record<string, Float64Array>>;
}

/** A sequence of an update, for the metrics. */
export interface SequenceMeasures {
  /** Number of completion tokens. */
  tokens: number;
  masked: boolean;
  /** If false, a ratio that was not computed cannot be assumed to be 1. */
  onPolicy: boolean;
  /** Measures by name; null when forward and backward were skipped because loss and gradient are 0. */
  measures: Readonly<Record<string, number>> | null;
}

export interface NormalizerCounts {
  /** Sequences of the update, including those without tokens in the loss. */
  sequences: number;
  /** Unmasked completion tokens of the update. */
  tokens: number;
  /** Unmasked completion tokens of the whole generated batch the update is a slice of. */
  generationTokens: number;
  /** Number of updates that one pass over the generated batch is split into. */
  stepsPerGeneration: number;
  maxCompletionLength: number;
}

/** A registered loss. */
export interface LossDefinition<Shape extends z.ZodRawShape = z.ZodRawShape> {
  readonly name: string;
  /** One line for the documentation. */
  readonly summary: string;
  readonly formula: string;
  /** Its own parameters with their defaults, which `lossParams` may set. */
  readonly parameters: Shape;
  /** Whether the loss uses `delta`. */
  readonly usesDelta: boolean;
  /** The divisor of one update. Zero-variance groups are in every count, even when they are skipped. */
  normalizer(counts: NormalizerCounts): number;
  compute(batch: LossBatch, settings: LossSettings, parameters: z.output<z.ZodObject<Shape>>): LossResult;
  /** The metrics of one update. */
  metrics(sequences: readonly SequenceMeasures[], level: LossSettings['level']): KnownMetrics;
}
