/**
 * The interface of a loss: a pure function of flat arrays, one number per completion token, the sequences of a
 * micro-batch laid end to end. It gives the loss and its slope at every log-prob; the engine's backward does the rest.
 */
import type { z } from 'zod';
import type { KnownMetrics } from '../metric-names';

export interface LossBatch {
  /** [B + 1]; the completion tokens of sequence b are offsets[b] up to, not including, offsets[b + 1]. */
  offsets: Int32Array;
  /** [N] log-probs of the policy that is trained, at the sampling temperature. */
  logprobs: Float64Array;
  /** [B] */
  advantages: Float64Array;
  /** [N]; 0 leaves a token out of the loss and of every count. */
  mask: Uint8Array;
  /** [N] log-probs before the first update on this batch; null: on-policy, `logprobs` held fixed. */
  oldLogprobs: Float64Array | null;
  /** [N] log-probs of the base model; null with beta 0. */
  refLogprobs: Float64Array | null;
  /** [N] what each token's policy loss is multiplied by (corrections.ts); null: 1. vespo takes them into its weight. */
  importanceWeights: Float64Array | null;
  /** [N]; 0 takes a token's policy loss away, its KL term and its place in every count stay (corrections.ts); null: none. */
  kept: Uint8Array | null;
}

/** What every loss may use, under TRL's names. */
export interface LossSettings {
  /** Importance ratio of each token, or one per sequence (GSPO). */
  level: 'token' | 'sequence';
  epsilonLow: number;
  /** cispo: the bound of the ratio itself. */
  epsilonHigh: number;
  /** Bound of the ratio that is not clipped; null: none. */
  delta: number | null;
  /** Weight of the KL term; 0: none. */
  beta: number;
  /** The KL estimate is multiplied by the importance ratio. */
  klBiasCorrection: boolean;
  /** The whole update's divisor, from `normalizer`: so no cut into micro-batches changes the gradient. */
  normalizer: number;
}

export interface LossResult {
  /** This micro-batch's share of the update's loss. */
  loss: number;
  /** [N] derivative of the loss with respect to each log-prob. */
  slopes: Float64Array;
  /** Sum of the KL estimates over the unmasked tokens. */
  klSum: number;
  /** [B] each: what the loss measures of a sequence, for its metrics. */
  measures: Readonly<Record<string, Float64Array>>;
}

/** A sequence of an update, when its metrics are made. */
export interface SequenceMeasures {
  /** Completion tokens. */
  tokens: number;
  masked: boolean;
  /** False: off-policy, so that a ratio nobody computed is not known to be 1. */
  onPolicy: boolean;
  /** By name; null: forward and backward were left out because loss and gradient are 0. */
  measures: Readonly<Record<string, number>> | null;
}

export interface NormalizerCounts {
  /** Sequences of the update, those without tokens in the loss included. */
  sequences: number;
  /** Unmasked completion tokens of the update. */
  tokens: number;
  /** Unmasked completion tokens of the whole generated batch the update is a slice of. */
  generationTokens: number;
  /** Updates one pass over the generated batch is cut into. */
  stepsPerGeneration: number;
  maxCompletionLength: number;
}

/** A loss, as it is registered. */
export interface LossDefinition<Shape extends z.ZodRawShape = z.ZodRawShape> {
  readonly name: string;
  /** One line for the documentation. */
  readonly summary: string;
  readonly formula: string;
  /** Its own parameters with their defaults: what `lossParams` may set. */
  readonly parameters: Shape;
  /** `delta` bounds something. */
  readonly usesDelta: boolean;
  /** The divisor of one update; zero-variance groups are in every count, also when they are skipped. */
  normalizer(counts: NormalizerCounts): number;
  compute(batch: LossBatch, settings: LossSettings, parameters: z.output<z.ZodObject<Shape>>): LossResult;
  /** Of one update. */
  metrics(sequences: readonly SequenceMeasures[], level: LossSettings['level']): KnownMetrics;
}
