/** Losses: their registry, their parameters and the weights of their tokens. */
import { z } from 'zod';
import { bindParameters } from '../config/parameters';
import { AcoerError, badUsage, errorMessage } from '../base/errors';
import { shownValue } from '../base/border';
import { isRecord } from '../base/json';
import { findLoss, isBuiltInLoss, listLosses } from './registry';
import type { LossBatch, LossDefinition, LossResult, LossSettings } from './types';

export {
  entropyThreshold,
  type ImportanceCorrection,
  importanceWeights,
  isOnPolicy,
  isOutside,
} from './corrections';
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
    throw badUsage(`Unknown loss "${name}" (known: ${known.join(', ')})`);
  }
  const parameters = bindParameters(`lossParams.${name}`, z.strictObject(loss.parameters), given);
  const bound: BoundLoss = {
    name,
    normalizer: (counts) => loss.normalizer(counts),
    metrics: (sequences, level) => loss.metrics(sequences, level),
    compute: (batch, settings) => loss.compute(batch, settings, parameters),
  };
  return isBuiltInLoss(name) ? bound : checked(bound);
}

const isTyped = (value: unknown): value is Float64Array =>
  ArrayBuffer.isView(value) && Object.prototype.toString.call(value) === '[object Float64Array]';

/** What is wrong with what a loss returned, or null. A number that is not finite is a matter of `nonFinitePolicy`. */
function faultOf(result: unknown, { logprobs, offsets }: LossBatch): string | null {
  if (!isRecord(result)) return `returned ${shownValue(result)}, not { loss, slopes, klSum, measures }`;
  const { loss, slopes, klSum, measures } = result;
  if (typeof loss !== 'number') return `returned the loss ${shownValue(loss)}, not a number`;
  if (typeof klSum !== 'number') return `returned the klSum ${shownValue(klSum)}, not a number`;
  if (!isTyped(slopes)) return `returned slopes that are ${shownValue(slopes)}, not a Float64Array`;
  if (slopes.length !== logprobs.length) {
    return `returned ${slopes.length} slopes for ${logprobs.length} completion tokens; it must return one per token`;
  }
  if (!isRecord(measures)) return `returned measures that are ${shownValue(measures)}, not an object`;
  const sequences = offsets.length - 1;
  for (const [name, values] of Object.entries(measures)) {
    if (!isTyped(values) || values.length !== sequences) {
      return `returned ${shownValue(values)} as measure ${name}, not a Float64Array of ${sequences}`;
    }
  }
  return null;
}

/** A loss of the user's: what it returns is checked before it reaches the engine. @throws LOSS_FAILED */
function checked(loss: BoundLoss): BoundLoss {
  const { name } = loss;
  const failed = (fault: string, cause?: unknown) =>
    new AcoerError('LOSS_FAILED', `Loss "${name}" ${fault}.`, { cause });
  const call = <T>(what: string, work: () => T): T => {
    try {
      return work();
    } catch (cause) {
      throw failed(`failed in ${what}: ${errorMessage(cause)}`, cause);
    }
  };
  return {
    name,
    normalizer(counts) {
      const divisor: unknown = call('normalizer', () => loss.normalizer(counts));
      if (Number.isFinite(divisor) && (divisor as number) > 0) return divisor as number;
      throw failed(`has the normalizer ${shownValue(divisor)}, not a number above 0`);
    },
    metrics: (sequences, level) => loss.metrics(sequences, level),
    compute(batch, settings) {
      const result = call('compute', () => loss.compute(batch, settings));
      const fault = faultOf(result, batch);
      if (fault !== null) throw failed(fault);
      return result;
    },
  };
}
