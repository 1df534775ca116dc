/** Forward, loss and backward for tests of the engine. */
import type { CallOptions, PackedSequences, Policy, TokenValues } from '../../src/engine/types';
import { resolveLoss, type LossResult, type LossSettings } from '../../src/losses';
import { completionLengths } from './fixtures';

/** The inputs of a loss besides the log-probs of the pass. */
export interface TrainBatch extends PackedSequences {
  /** Per sequence. */
  advantages: Float64Array;
  mask: Uint8Array;
  oldLogprobs: Float64Array | null;
  refLogprobs: Float64Array | null;
  importanceWeights: Float64Array | null;
}

/** A batch with every token in the loss and no optional fields, except those in `rest`. */
export function trainBatch(
  sequences: PackedSequences,
  advantages: Float64Array,
  rest: Partial<TrainBatch> = {},
): TrainBatch {
  const tokens = completionLengths(sequences).reduce((a, b) => a + b, 0);
  return {
    ...sequences,
    advantages,
    mask: new Uint8Array(tokens).fill(1),
    oldLogprobs: null,
    refLogprobs: null,
    importanceWeights: null,
    ...rest,
  };
}

/** Sequences `from` up to `to` of a batch, with the same slice of each per-token array. */
export function sliceBatch(batch: TrainBatch, from: number, to: number): TrainBatch {
  const lengths = completionLengths(batch);
  const count = (end: number): number => lengths.slice(0, end).reduce((a, b) => a + b, 0);
  const [first, last] = [count(from), count(to)];
  const begin = batch.offsets[from]!;
  return {
    ids: batch.ids.slice(begin, batch.offsets[to]),
    offsets: batch.offsets.slice(from, to + 1).map((offset) => offset - begin),
    promptLengths: batch.promptLengths.slice(from, to),
    advantages: batch.advantages.slice(from, to),
    mask: batch.mask.slice(first, last),
    oldLogprobs: batch.oldLogprobs?.slice(first, last) ?? null,
    refLogprobs: batch.refLogprobs?.slice(first, last) ?? null,
    importanceWeights: batch.importanceWeights?.slice(first, last) ?? null,
  };
}

export interface NamedLoss extends LossSettings {
  type: string;
  temperature: number;
  parameters: Record<string, unknown>;
}

/** Settings with TRL 1.13's defaults for everything not given; its `loss_type` is dapo, without a KL term. */
export const trlLoss = (settings: Partial<NamedLoss> & Pick<NamedLoss, 'normalizer'>): NamedLoss => ({
  type: 'dapo',
  level: 'token',
  epsilonLow: 0.2,
  epsilonHigh: 0.2,
  delta: null,
  beta: 0,
  klBiasCorrection: true,
  temperature: 1,
  parameters: {},
  ...settings,
});

export type PassResult = LossResult & TokenValues & { tokens: number; entropySum: number };

/** Adds the gradient of a loss on a batch to the policy's gradient. */
export async function accumulate(
  policy: Policy,
  batch: TrainBatch,
  settings: NamedLoss,
): Promise<PassResult> {
  const values = await policy.forward(batch, { temperature: settings.temperature });
  const offsets = new Int32Array(batch.promptLengths.length + 1);
  completionLengths(batch).forEach((length, b) => (offsets[b + 1] = offsets[b]! + length));
  const loss = resolveLoss(settings.type, settings.parameters);
  const result = loss.compute({ ...batch, offsets, kept: null, logprobs: values.logprobs }, settings);
  await policy.backward(result.slopes);
  const counted = (t: number) => batch.mask[t] !== 0;
  return {
    ...result,
    ...values,
    tokens: batch.mask.reduce((sum, bit) => sum + bit, 0),
    entropySum: values.entropies.reduce((sum, entropy, t) => sum + (counted(t) ? entropy : 0), 0),
  };
}

/**
 * Adds the gradient of -1/N sum A exp(logprob - old), A per token; if `old` is null, of the log-probs
 * themselves.
 */
export async function surrogatePass(
  policy: Policy,
  sequences: PackedSequences,
  advantages: Float64Array,
  old: Float64Array | null = null,
): Promise<number> {
  const { logprobs } = await policy.forward(sequences);
  const terms = advantages.map(
    (a, t) => (-a * Math.exp(logprobs[t]! - (old ?? logprobs)[t]!)) / advantages.length,
  );
  await policy.backward(terms);
  return terms.reduce((a, b) => a + b, 0);
}

/** A pass with a non-zero gradient, for tests about something else. */
export async function anyPass(
  policy: Policy,
  sequences: PackedSequences,
  options?: CallOptions,
): Promise<TokenValues> {
  const values = await policy.forward(sequences, options);
  await policy.backward(
    values.logprobs.map((_, t) => (t % 2 === 0 ? -1 : 0.5)),
    options,
  );
  return values;
}
