/** Losses: their registry, their parameters and the weights of their tokens. */
import { z } from 'zod';
import { bindParameters } from '../config/parameters';
import { AcoerError } from '../errors';
import { findLoss, listLosses } from './registry';
import type { LossBatch, LossDefinition, LossResult, LossSettings } from './types';

export { entropyThreshold, importanceWeights, isOnPolicy } from './corrections';
export { listLosses, registerLoss } from './registry';
export { sumOverTokens } from './tokens';
export type { TokenLoss } from './tokens';
export type { LossBatch, LossDefinition, LossResult, LossSettings, SequenceMeasures } from './types';

/** A loss with checked parameters. */
export interface BoundLoss extends Pick<LossDefinition, 'name' | 'normalizer' | 'metrics'> {
  compute(batch: LossBatch, settings: LossSettings): LossResult;
}

/** The loss `name` with checked parameters. Throws BAD_CONFIG for an unknown name or parameter. */
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

/** Checks what a user's loss returned before it reaches the engine's backward pass. */
function valid(name: string, { logprobs }: LossBatch, result: LossResult): LossResult {
  if (result.slopes.length === logprobs.length) return result;
  throw new AcoerError(
    'BAD_CONFIG',
    `Loss "${name}" returned ${result.slopes.length} slopes for ${logprobs.length} completion tokens; it must return one per token`,
  );
}
