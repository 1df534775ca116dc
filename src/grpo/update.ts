/** One optimiser update from a slice of a generated batch. */
import type { Config } from '../config';
import { entropyThreshold } from '../losses';
import { streamSeed } from '../base/rng';
import { samplingSeed, type KnownLogprobs, type LoopState, type UpdateContext } from './context';
import { gatherWeights, isSharded } from '../ranks/shards';
import { lossPass, type PassOptions, type SampleResult } from './loss';
import { memoryError } from './memory';
import { joinPerToken, runsByTokens, splitPerToken, type Run } from '../base/packing';
import { dealtByTokens } from '../base/dealing';
import { gradientNonFinite, NonFiniteError, onEveryRank, type NonFinite } from './non-finite';
import { sampleName, type OpenBatch, type Sample } from './sample';
import { scheduleFactor } from './schedule';
import { addLogprobs, scoreSamples } from './score';

/** One forward and backward pass. */
export interface MicroBatch {
  samples: readonly Sample[];
  dropoutSeed: bigint | null;
  /** NaN: a number of the pass was not finite. */
  loss: number;
  /** Sum of all its log-probs. On-policy the loss hardly depends on the weights; this does. */
  logprobSum: number;
}

export interface UpdateResult {
  loss: number;
  /** Before clipping; not finite when the update was refused. */
  gradNorm: number;
  applied: boolean;
  /** Why it was not applied; otherwise null. */
  nonFinite: NonFinite | null;
  learningRate: number;
  klSum: number;
  entropySum: number;
  /** The tokens that `entropySum` is over: those of `tokens` whose entropy is known. */
  entropyTokens: number;
  /** Unmasked completion tokens in the slice. */
  tokens: number;
  samples: readonly Sample[];
  results: Map<Sample, SampleResult>;
  microBatches: MicroBatch[];
  timesMs: { train: number; optimizer: number };
}

const unmaskedTokens = (samples: readonly Sample[]) =>
  samples.reduce((sum, sample) => sum + (sample.masked ? 0 : sample.completionIds.length), 0);

/** Accumulates the slice's gradient. False: a loss or log-prob was not finite, and no gradient is left. */
async function accumulateAll(
  context: UpdateContext,
  total: UpdateResult,
  options: PassOptions,
): Promise<boolean> {
  const { policy, ranks, watch, memory } = context;
  const live = total.samples.filter((sample) => !sample.skipped);
  const own = dealtByTokens(ranks.size, runsByTokens(live))[ranks.rank]!;
  const { dropoutSeed } = options;
  const before = { loss: total.loss, klSum: total.klSum, entropySum: total.entropySum };
  const restart = async () => {
    await policy.zeroGradients();
    Object.assign(total, before);
    total.results.clear();
    total.microBatches.length = 0;
  };
  const pass = async (samples: readonly Sample[], runs: readonly Run<Sample>[]) => {
    const microBatch: MicroBatch = { samples, dropoutSeed, loss: NaN, logprobSum: NaN };
    const index = total.microBatches.push(microBatch) - 1;
    const trained = watch.begin(() => ({ microBatch: index, samples: samples.map(sampleName) }));
    try {
      const result = await lossPass(context, samples, options, runs);
      Object.assign(microBatch, { loss: result.loss, logprobSum: result.logprobSum });
      total.loss += result.loss;
      total.klSum += result.klSum;
      total.entropySum += result.entropySum;
      samples.forEach((sample, b) => total.results.set(sample, result.samples[b]!));
    } finally {
      trained();
    }
  };
  try {
    const shares = await onEveryRank(ranks, 'training', async () => {
      await memory.inBins('training', own, pass, restart);
      return shareResults(total);
    });
    mergeResults(total, shares);
    return true;
  } catch (error) {
    await policy.zeroGradients();
    if (!(error instanceof NonFiniteError)) throw error;
    total.nonFinite = error.found;
    return false;
  }
}

/** What a rank's passes gave. */
interface ShareResults extends Pick<UpdateResult, 'loss' | 'klSum' | 'entropySum'> {
  /** By the place of the sample in the slice. */
  results: { place: number; result: SampleResult }[];
}

function shareResults({ samples, results, loss, klSum, entropySum }: UpdateResult): ShareResults {
  const places = new Map(samples.map((sample, i) => [sample, i]));
  const own = [...results].map(([sample, result]) => ({ place: places.get(sample)!, result }));
  return { loss, klSum, entropySum, results: own };
}

/** Replaces the sums and results of this rank by those of all ranks. */
function mergeResults(total: UpdateResult, shares: readonly ShareResults[]): void {
  const sum = (value: (share: ShareResults) => number) => shares.map(value).reduce((a, b) => a + b);
  total.loss = sum(({ loss }) => loss);
  total.klSum = sum(({ klSum }) => klSum);
  total.entropySum = sum(({ entropySum }) => entropySum);
  const all = shares.flatMap(({ results }) => results);
  total.results = new Map(all.map(({ place, result }) => [total.samples[place]!, result]));
}

/**
 * Log-probs by the weights that sampled, without dropout as the sampler's are; null: not known. A training pass may have
 * dropout.
 */
export const trainerLogprobs =
  ({ config }: Pick<UpdateContext, 'config'>, { results }: Pick<UpdateResult, 'results'>): KnownLogprobs =>
  (sample) => {
    const ofPass = config.loraDropout > 0 ? undefined : results.get(sample)?.logprobs;
    return sample.oldLogprobs ?? ofPass ?? null;
  };

/** [T] per sample: 1 for tokens whose entropy is among the `topEntropyQuantile` highest. */
async function highEntropyTokens(
  context: UpdateContext,
  samples: readonly Sample[],
): Promise<Map<Sample, Uint8Array>> {
  const { policy, config, ranks } = context;
  const counted = runsByTokens(samples.filter((sample) => !sample.masked));
  const shares = dealtByTokens(ranks.size, counted).map((runs) => runs.flat());
  const own = shares[ranks.rank]!;
  const all = await ranks.gather('scoring entropies', async () => {
    const entropies = new Map<Sample, Float64Array>();
    await scoreSamples(context, own, policy, (members, values) => {
      splitPerToken(values.entropies, members).forEach((part, b) => entropies.set(members[b]!, part));
    });
    return own.map((sample) => entropies.get(sample)!);
  });
  const flat = all.flat();
  const threshold = entropyThreshold(joinPerToken(flat), config.topEntropyQuantile);
  const high = (of: Float64Array) => Uint8Array.from(of, (entropy) => Number(entropy >= threshold));
  return new Map(shares.flat().map((sample, i) => [sample, high(flat[i]!)]));
}

/** The divisor of the slice `samples`, the same for all its micro-batches. */
export function sliceNormalizer(
  { config, loss }: Pick<UpdateContext, 'config' | 'loss'>,
  batch: OpenBatch,
  samples: readonly Sample[],
): number {
  return loss.normalizer({
    sequences: samples.length,
    tokens: unmaskedTokens(samples),
    generationTokens: batch.tokens,
    stepsPerGeneration: config.stepsPerGeneration,
    maxCompletionLength: config.maxCompletionLength,
  });
}

/** The samples of slice number `slice` of a batch: `promptsPerStep` groups. */
export function sliceSamples(config: Config, { samples }: OpenBatch, slice: number): readonly Sample[] {
  const perSlice = config.promptsPerStep * config.numGenerations;
  return samples.slice(slice * perSlice, (slice + 1) * perSlice);
}

function emptyResult(samples: readonly Sample[], learningRate: number, rank: number): UpdateResult {
  const sum = (values: Float64Array | null) => values?.reduce((total, value) => total + value, 0) ?? 0;
  // Samples that no rank trains on have the entropies that the sampler knows; the first rank counts them.
  const skipped = rank === 0 ? samples.filter((sample) => sample.skipped && !sample.masked) : [];
  return {
    loss: 0,
    gradNorm: NaN,
    applied: false,
    nonFinite: null,
    learningRate,
    klSum: 0,
    entropySum: skipped.reduce((total, { entropies }) => total + sum(entropies), 0),
    entropyTokens: unmaskedTokens(samples.filter((sample) => !sample.skipped || sample.entropies !== null)),
    tokens: unmaskedTokens(samples),
    samples,
    results: new Map(),
    microBatches: [],
    timesMs: { train: 0, optimizer: 0 },
  };
}

/**
 * Whether the first pass over a batch was made with wrong kernels, which are then left out. What was scored with them is
 * scored again.
 */
async function trainedWrongly(
  context: UpdateContext,
  { samples, updatesDone }: OpenBatch,
  result: UpdateResult,
): Promise<boolean> {
  if (updatesDone > 0 || context.drift === undefined) return false;
  const wrong = await context.drift.settle(context, samples, trainerLogprobs(context, result));
  if (wrong) await addLogprobs(context, samples);
  return wrong;
}

/** The optimiser's step from the gradient of all ranks. */
async function takeStep(
  { config, policy, ranks, beforeStep }: UpdateContext,
  learningRate: number,
): Promise<{ gradNorm: number; applied: boolean }> {
  const { weightDecay, maxGradNorm } = config;
  await ranks.reduceGradients(policy);
  const steps = await ranks.gather('the optimiser', async () => {
    try {
      await beforeStep?.();
      return await policy.step({ learningRate, weightDecay, maxGradNorm });
    } catch (error) {
      throw memoryError(error, 'training', config, ' in the optimiser');
    }
  });
  const taken = steps[ranks.rank]!;
  if (taken.applied && isSharded(policy)) await gatherWeights(ranks, policy);
  return taken;
}

/**
 * Trains on slice number `slice` of the batch (`promptsPerStep` groups); `step` counts updates from 0. If a
 * number is not finite, nothing changes and `applied` is false. The step is taken even if every group was
 * skipped: with a gradient of zero AdamW still advances, as in TRL.
 */
export async function updateOnSlice(
  context: UpdateContext,
  batch: OpenBatch,
  slice: number,
  { step, eased }: LoopState,
): Promise<UpdateResult> {
  const { config, ranks, schedule, watch } = context;
  const samples = sliceSamples(config, batch, slice);
  const learningRate = config.learningRate * scheduleFactor(schedule, step);
  const result = emptyResult(samples, learningRate, ranks.rank);
  const normalizer = sliceNormalizer(context, batch, samples);
  const started = performance.now();
  const seed = samplingSeed(config, eased);
  // One seed for the whole step: a token's mask depends on its sequence and place, not on its micro-batch.
  const dropoutSeed = config.loraDropout > 0 ? streamSeed(seed, 'dropout', step) : null;
  const pass = async () => {
    const kept = config.topEntropyQuantile < 1 ? await highEntropyTokens(context, samples) : null;
    return accumulateAll(context, result, { normalizer, dropoutSeed, kept });
  };
  const finite = await watch.phase('train', async () => {
    if (!(await pass())) return false;
    if (!(await trainedWrongly(context, batch, result))) return true;
    await context.policy.zeroGradients();
    Object.assign(result, emptyResult(samples, learningRate, ranks.rank));
    return pass();
  });
  const accumulated = performance.now();
  if (finite) {
    const { gradNorm, applied } = await watch.phase('optimizer', () => takeStep(context, learningRate));
    Object.assign(result, { gradNorm, applied, nonFinite: applied ? null : gradientNonFinite(gradNorm) });
  }
  result.timesMs = { train: accumulated - started, optimizer: performance.now() - accumulated };
  return result;
}
