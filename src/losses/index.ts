/** Losses: their registry, their parameters, and what their tokens are weighted by. */
import { z } from 'zod';
import { bindParameters } from '../config/parameters';
import { AcoerError } from '../errors';
import { findLoss, listLosses } from './registry';
import type { LossBatch, LossDefinition, LossResult, LossSettings } from './types';

export { CORRECTION_MODES, entropyThreshold, importanceWeights, isOnPolicy } from './corrections';
export type { ImportanceCorrection } from './corrections';
export { listLosses, registerLoss } from './registry';
export { sumOverTokens } from './tokens';
export type { SequenceTokens, TokenLoss, TokenRule, TokenTerm } from './tokens';
export type {
  LossBatch,
  LossDefinition,
  LossResult,
  LossSettings,
  NormalizerCounts,
  SequenceMeasures,
} from './types';

/** A loss with its parameters checked. */
export interface BoundLoss extends Pick<LossDefinition, 'name' | 'normalizer' | 'metrics'> {
  compute(batch: LossBatch, settings: LossSettings): LossResult;
}

/** The loss `name` with its parameters checked; BAD_CONFIG for an unknown name or parameter. */
export function resolveLoss(name: string, given: Readonly<Record<string, unknown>> = {}): BoundLoss {
  const loss = findLoss(name);
  if (loss === undefined) {
    const known = listLosses().map((one) => one.name);
    throw new AcoerError('BAD_CONFIG', `Unknown loss "${name}" (known: ${known.join(', ')})`);
  }
  const parameters = bindParameters(`lossParams.${name}`, z.strictObject(loss.parameters), given);
  return {
    name,
    normalizer: (counts) => loss.normalizer(counts),
    metrics: (sequences, level) => loss.metrics(sequences, level),
    compute: (batch, settings) => valid(name, batch, loss.compute(batch, settings, parameters)),
  };
}

/** What a loss of the user's must give before the engine's backward sees it. */
function valid(name: string, { logprobs }: LossBatch, result: LossResult): LossResult {
  if (result.slopes.length === logprobs.length) return result;
  throw new AcoerError(
    'BAD_CONFIG',
    `Loss "${name}" gave ${result.slopes.length} slopes for ${logprobs.length} completion tokens; it must give one for each`,
  );
}
