/** Forward, loss and backward of one micro-batch. */
import type { Config } from '../config';
import type { TokenValues } from '../engine/types';
import { importanceWeights, isOnPolicy, type LossBatch, type LossResult, type LossSettings } from '../losses';
import type { Sample } from './sample';
import type { UpdateContext } from './context';
import { joinPerToken, packSequences, splitPerToken, type Run } from '../base/packing';
import { checkLoss, checkTokens } from './non-finite';

/** What the trainer measured on one sample. */
export interface SampleResult {
  /** [T] */
  logprobs: Float64Array;
  /** The loss's measures of the sequence, by name. */
  measures: Readonly<Record<string, number>>;
  /** [T] trainer's over sampler's probability, bounded; null without `importanceSamplingCorrection`. */
  importanceWeights: Float64Array | null;
}

export interface PassResult {
  /** This pass's share of the update's loss. */
  loss: number;
  /** Sums over unmasked tokens; `logprobSum` is over all. */
  klSum: number;
  entropySum: number;
  logprobSum: number;
  samples: SampleResult[];
}

export interface PassOptions {
  /** The whole update's divisor. */
  normalizer: number;
  dropoutSeed: bigint | null;
  /** [T] per sample; 0 excludes a token from the policy loss. null: every token counts. */
  kept: ReadonlyMap<Sample, Uint8Array> | null;
}

export function lossSettings(config: Config, normalizer: number): LossSettings {
  return {
    level: config.importanceSamplingLevel,
    epsilonLow: config.epsilon,
    epsilonHigh: config.epsilonHigh ?? config.epsilon,
    delta: config.delta,
    beta: config.beta,
    klBiasCorrection: config.useBiasCorrectionKl,
    normalizer,
  };
}

/** The samples as the flat arrays that a loss works on. @param logprobs of the forward pass */
export function lossBatch(
  config: Config,
  members: readonly Sample[],
  logprobs: Float64Array,
  kept: PassOptions['kept'],
): LossBatch {
  const offsets = new Int32Array(members.length + 1);
  members.forEach(({ completionIds }, b) => (offsets[b + 1] = offsets[b]! + completionIds.length));
  const mask = new Uint8Array(logprobs.length);
  members.forEach(({ masked }, b) => mask.fill(masked ? 0 : 1, offsets[b], offsets[b + 1]));
  const oldLogprobs = joined(members.map((sample) => sample.oldLogprobs));
  return {
    offsets,
    logprobs,
    advantages: Float64Array.from(members, ({ advantage }) => advantage),
    mask,
    oldLogprobs,
    refLogprobs: joined(members.map((sample) => sample.refLogprobs)),
    importanceWeights: correction(config, members, { offsets, mask }, oldLogprobs ?? logprobs),
    kept: keptTokens(config, members, logprobs, kept),
  };
}

function correction(
  {
    importanceSamplingCorrection: mode,
    importanceSamplingClipMin: min,
    importanceSamplingClipMax: max,
  }: Config,
  members: readonly Sample[],
  batch: Pick<LossBatch, 'offsets' | 'mask'>,
  logprobs: Float64Array,
): Float64Array | null {
  if (mode === null) return null;
  const sampled = joinPerToken(members.map((sample) => sample.sampledLogprobs));
  return importanceWeights(batch, logprobs, sampled, { mode, min, max });
}

/** null if any sample lacks its part. */
function joined(parts: readonly (Float64Array | null)[]): Float64Array | null {
  return parts.every((part) => part !== null) ? joinPerToken(parts) : null;
}

function keptTokens(
  { offPolicyMaskThreshold: threshold }: Config,
  members: readonly Sample[],
  logprobs: Float64Array,
  kept: PassOptions['kept'],
): Uint8Array | null {
  if (threshold === null && kept === null) return null;
  const split = splitPerToken(logprobs, members);
  const parts = members.map((sample, b) => {
    const own = split[b]!;
    if (threshold !== null && !isOnPolicy(sample.advantage, own, sample.sampledLogprobs, threshold))
      return new Uint8Array(own.length);
    return kept?.get(sample) ?? new Uint8Array(own.length).fill(1);
  });
  return Uint8Array.from(parts.flatMap((part) => [...part]));
}

/**
 * Adds the gradient of the loss on `members` to the policy's.
 * @param runs that make up `members`
 * @throws NonFiniteError naming the completion whose log-prob or slope is not finite; its gradient is
 * discarded
 */
export async function lossPass(
  context: Pick<UpdateContext, 'config' | 'policy' | 'loss' | 'signal' | 'watch'>,
  members: readonly Sample[],
  { normalizer, dropoutSeed, kept }: PassOptions,
  runs: readonly Run<Sample>[] = [members],
): Promise<PassResult> {
  const { config, policy, signal } = context;
  const call = signal ? { signal } : {};
  const { temperature } = config;
  const values = await policy.forward(packSequences(members, runs), { temperature, dropoutSeed, ...call });
  checkTokens('accumulate', 'the log-prob', members, values.logprobs);
  const batch = lossBatch(config, members, values.logprobs, kept);
  const result = context.loss.compute(batch, lossSettings(config, normalizer));
  checkLoss(result.loss, members);
  checkTokens('accumulate', "the loss's derivative at the log-prob", members, result.slopes);
  await policy.backward(result.slopes, call);
  return passResult(members, values, batch, result);
}

function passResult(
  members: readonly Sample[],
  { logprobs, entropies }: TokenValues,
  batch: LossBatch,
  { loss, klSum, measures }: LossResult,
): PassResult {
  const weights = batch.importanceWeights && splitPerToken(batch.importanceWeights, members);
  const samples = splitPerToken(logprobs, members).map((own, b) => ({
    logprobs: own,
    measures: Object.fromEntries(Object.entries(measures).map(([name, values]) => [name, values[b]!])),
    importanceWeights: weights?.[b] ?? null,
  }));
  let [entropySum, logprobSum] = [0, 0];
  for (let t = 0; t < logprobs.length; t++) {
    logprobSum += logprobs[t]!;
    if (batch.mask[t] !== 0) entropySum += entropies[t]!;
  }
  return { loss, klSum, entropySum, logprobSum, samples };
}
