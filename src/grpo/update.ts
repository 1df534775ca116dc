/** One optimiser update from a slice of a generated batch. */
import type { Config } from '../config';
import type { AccumulateResult, LossSettings, TrainBatch } from '../engine/types';
import { errorCode } from '../errors';
import { streamSeed } from '../rng';
import { sampleName, type OpenBatch, type UpdateSample } from './batch';
import { samplingSeed, type LoopState, type UpdateContext } from './context';
import { memoryError } from './memory';
import { joinPerToken, packSequences, splitPerToken } from './microbatch';
import { gradientNonFinite, passNonFinite, type NonFinite } from './non-finite';
import { lossNormalizer } from './normalizer';
import { scheduleFactor } from './schedule';

/** What the trainer measured on one sample. */
export interface SampleResult {
  logprobs: Float64Array;
  clippedLow: number;
  clippedHigh: number;
  vespoPhi: number;
}

/** One pass of `accumulate`. */
export interface MicroBatch {
  samples: readonly UpdateSample[];
  dropoutSeed: bigint | null;
  /** NaN: the pass was refused. */
  loss: number;
  /** Of all its log-probs: on-policy the loss hardly depends on the weights, this does. */
  logprobSum: number;
}

export interface UpdateResult {
  loss: number;
  /** Before clipping; not finite when the update was refused. */
  gradNorm: number;
  applied: boolean;
  /** Why it was not applied. */
  nonFinite: NonFinite | null;
  learningRate: number;
  klSum: number;
  entropySum: number;
  /** Unmasked completion tokens of the slice. */
  tokens: number;
  samples: readonly UpdateSample[];
  results: Map<UpdateSample, SampleResult>;
  microBatches: MicroBatch[];
  timesMs: { train: number; optimizer: number };
}

export function lossSettings(context: Pick<UpdateContext, 'config'>, normalizer: number): LossSettings {
  const { config } = context;
  return {
    type: config.lossType,
    level: config.importanceSamplingLevel,
    epsilonLow: config.epsilon,
    epsilonHigh: config.epsilonHigh ?? config.epsilon,
    delta: config.delta,
    beta: config.beta,
    klBiasCorrection: config.useBiasCorrectionKl,
    temperature: config.temperature,
    sapoTemperaturePos: config.sapoTemperaturePos,
    sapoTemperatureNeg: config.sapoTemperatureNeg,
    vespoKPos: config.vespoKPos,
    vespoLambdaPos: config.vespoLambdaPos,
    vespoKNeg: config.vespoKNeg,
    vespoLambdaNeg: config.vespoLambdaNeg,
    normalizer,
  };
}

function perToken(samples: readonly UpdateSample[], value: (sample: UpdateSample) => number): Float64Array {
  return joinPerToken(samples.map((s) => new Float64Array(s.completionIds.length).fill(value(s))));
}

/** The arrays of one micro-batch. */
export function trainBatch(samples: readonly UpdateSample[], dropoutSeed: bigint | null): TrainBatch {
  const old = samples.map((sample) => sample.oldLogprobs);
  const ref = samples.map((sample) => sample.refLogprobs);
  const complete = (parts: (Float64Array | null)[]): parts is Float64Array[] => !parts.includes(null);
  return {
    ...packSequences(samples),
    advantages: perToken(samples, (sample) => sample.advantage),
    mask: Uint8Array.from(perToken(samples, (sample) => (sample.masked ? 0 : 1))),
    oldLogprobs: complete(old) ? joinPerToken(old) : null,
    refLogprobs: complete(ref) ? joinPerToken(ref) : null,
    importanceWeights: null,
    dropoutSeed,
  };
}

const unmaskedTokens = (samples: readonly UpdateSample[]) =>
  samples.reduce((sum, sample) => sum + (sample.masked ? 0 : sample.completionIds.length), 0);

function addResult(total: UpdateResult, members: readonly UpdateSample[], result: AccumulateResult): void {
  const logprobSum = result.logprobs.reduce((a, b) => a + b, 0);
  Object.assign(total.microBatches.at(-1)!, { loss: result.loss, logprobSum });
  total.loss += result.loss;
  total.klSum += result.klSum;
  total.entropySum += result.entropySum;
  splitPerToken(result.logprobs, members).forEach((logprobs, i) => {
    const clippedLow = result.clippedLow[i] ?? 0;
    const clippedHigh = result.clippedHigh[i] ?? 0;
    total.results.set(members[i]!, { logprobs, clippedLow, clippedHigh, vespoPhi: result.vespoPhi[i] ?? 0 });
  });
}

/** Adds up the gradient of the slice; false when a loss or log-prob was not finite (then no gradient is left). */
async function accumulateAll(
  context: UpdateContext,
  total: UpdateResult,
  normalizer: number,
  dropoutSeed: bigint,
): Promise<boolean> {
  const { config, policy, signal, watch, memory } = context;
  const live = total.samples.filter((sample) => !sample.skipped);
  const loss = lossSettings(context, normalizer);
  const seed = config.loraDropout > 0 ? dropoutSeed : null;
  const before = { loss: total.loss, klSum: total.klSum, entropySum: total.entropySum };
  const restart = async () => {
    await policy.zeroGradients();
    Object.assign(total, before);
    total.results.clear();
    total.microBatches.length = 0;
  };
  const pass = async (members: readonly UpdateSample[]) => {
    const index = total.microBatches.push({
      samples: members,
      dropoutSeed: seed,
      loss: NaN,
      logprobSum: NaN,
    });
    const trained = watch.begin(() => ({ microBatch: index - 1, samples: members.map(sampleName) }));
    try {
      const batch = trainBatch(members, seed);
      addResult(total, members, await policy.accumulate(batch, loss, signal ? { signal } : {}));
    } finally {
      trained();
    }
  };
  try {
    await memory.inBins('training', live, pass, restart);
    return true;
  } catch (error) {
    await policy.zeroGradients();
    if (errorCode(error) !== 'NOT_FINITE') throw error;
    total.nonFinite = passNonFinite(error, total.microBatches.at(-1)!.samples);
    return false;
  }
}

/** The divisor of the slice `samples`, the same for all its micro-batches. */
export function sliceNormalizer(config: Config, batch: OpenBatch, samples: readonly UpdateSample[]): number {
  return lossNormalizer(config.lossType, {
    sequences: samples.length,
    tokens: unmaskedTokens(samples),
    generationTokens: batch.tokens,
    stepsPerGeneration: config.stepsPerGeneration,
    maxCompletionLength: config.maxCompletionLength,
  });
}

/** The samples of slice number `slice` of a batch: `promptsPerStep` groups. */
export function sliceSamples(config: Config, { samples }: OpenBatch, slice: number): readonly UpdateSample[] {
  const perSlice = config.promptsPerStep * config.numGenerations;
  return samples.slice(slice * perSlice, (slice + 1) * perSlice);
}

/**
 * Trains on slice number `slice` of the batch (`promptsPerStep` groups); `step` counts updates from 0. A result that is
 * not finite changes nothing and comes back with `applied` false. The step is taken also when every group was skipped:
 * with a gradient of zero AdamW still moves on, as in TRL.
 */
export async function updateOnSlice(
  context: UpdateContext,
  batch: OpenBatch,
  slice: number,
  { step, eased }: LoopState,
): Promise<UpdateResult> {
  const { config, policy, schedule, watch } = context;
  const samples = sliceSamples(config, batch, slice);
  const skippedEntropy = samples.filter((sample) => sample.skipped && !sample.masked);
  const result: UpdateResult = {
    loss: 0,
    gradNorm: NaN,
    applied: false,
    nonFinite: null,
    learningRate: config.learningRate * scheduleFactor(schedule, step),
    klSum: 0,
    entropySum: skippedEntropy.reduce((sum, s) => sum + s.rollout.entropies.reduce((a, b) => a + b, 0), 0),
    tokens: unmaskedTokens(samples),
    samples,
    results: new Map(),
    microBatches: [],
    timesMs: { train: 0, optimizer: 0 },
  };
  const normalizer = sliceNormalizer(config, batch, samples);
  const started = performance.now();
  const seed = samplingSeed(config, eased);
  // One for the step: a token's mask depends on its sequence and place, not on the micro-batch it is in.
  const dropoutSeed = streamSeed(seed, 'dropout', step);
  const finite = await watch.phase('train', () => accumulateAll(context, result, normalizer, dropoutSeed));
  const accumulated = performance.now();
  if (finite) {
    const { weightDecay, maxGradNorm } = config;
    context.policyStep = null;
    const { learningRate } = result;
    const { gradNorm, applied } = await watch
      .phase('optimizer', () => policy.step({ learningRate, weightDecay, maxGradNorm }))
      .catch((error: unknown) => {
        if (errorCode(error) !== 'OUT_OF_MEMORY') throw error;
        // Refused before anything changed: the weights still fit the state of before.
        context.policyStep = step;
        throw memoryError(error, 'training', config, ' in the optimiser');
      });
    Object.assign(result, { gradNorm, applied, nonFinite: applied ? null : gradientNonFinite(gradNorm) });
  }
  context.policyStep = step + 1;
  result.timesMs = { train: accumulated - started, optimizer: performance.now() - accumulated };
  return result;
}
