/** The divisor of one optimiser update's summed loss; equal to TRL's at one micro-batch per update. */
import type { LossTypeName } from '../engine/types';

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

/** Zero-variance groups are in every count, also when their forward and backward are skipped. */
export function lossNormalizer(type: LossTypeName, counts: NormalizerCounts): number {
  switch (type) {
    case 'grpo':
    case 'sapo':
    case 'luspo':
      return counts.sequences;
    case 'bnpo':
      return Math.max(1, counts.tokens);
    case 'dr_grpo':
      return counts.sequences * counts.maxCompletionLength;
    case 'dapo':
    case 'cispo':
    case 'vespo':
      return Math.max(1, counts.generationTokens) / counts.stepsPerGeneration;
  }
}
