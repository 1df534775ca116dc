/** What a configuration demands of the engine, in tokens and sequences, on any device. */
import { servedBy, type Config } from '../config';
import { DEFAULT_SLOTS, type KvCacheDtype, type Quantization } from '../engine/types';
import { adaptedEverywhere, pairParameters, parameterCount, type Adapted, type ModelShape } from './cost';
import { drawLengths, drawnPart, type LengthTrajectory } from './lengths';
import { groupsPerBatch, updatesPerBatch } from '../base/batches';
import { maximum, sum } from '../base/statistics';
import { samplesOfPart } from '../base/dealing';

/** What training itself demands, whether its sequences are sampled or given. */
export interface TrainingWork {
  /** Longest prompt in tokens. */
  promptTokens: number;
  maxNewTokens: number;
  /** Sequences that may share a prompt. */
  group: number;
  microBatchTokens: number;
  /** null: all weights are trained. */
  loraRank: number | null;
  loraDropout: number;
  targetModules: Config['targetModules'];
  /** What the base's linear layers are kept in. */
  quantization: Quantization | null;
  /** What the adapter to be trained further adapts; null: `targetModules` in every layer. */
  adapted: readonly Adapted[] | null;
}

export type TrainingConfig = Pick<
  Config,
  'microBatchTokens' | 'full' | 'loraRank' | 'loraDropout' | 'targetModules' | 'quantization'
>;

/** The part of it that the configuration alone decides. */
export const trainedBy = ({ microBatchTokens, full, ...config }: TrainingConfig) => ({
  microBatchTokens,
  loraRank: full ? null : config.loraRank,
  loraDropout: full ? 0 : config.loraDropout,
  targetModules: config.targetModules,
  quantization: config.quantization,
});

export interface PlannedWork extends TrainingWork {
  /** Prompts of one generated batch. */
  prompts: number;
  /** Prompts that are sampled at the same time: more with groups in flight. */
  promptsInFlight: number;
  /** Longest prompt of a request: with groups in flight those that go on end with what they have. */
  prefillTokens: number;
  /** Sequences of an update. */
  updateSequences: number;
  maxSlots: number;
  /** Completion tokens of the fullest update and the fullest batch that the length model draws. */
  fullestUpdateTokens: number;
  fullestBatchTokens: number;
  /** Scoring passes over a batch: old log-probs and the reference's. */
  scoringPasses: number;
  kvBytes: number | null;
  kvCacheDtype: KvCacheDtype;
  numSpeculativeTokens: number;
  /** Servers sample the completions. */
  served: boolean;
  /** Problems of the larger of a run's evaluations; 0: none. */
  evalProblems: number;
  evalMaxNewTokens: number;
}

const DRAWS = 32;

/** The most completion tokens that any draw of `prompts` groups has, from draws of a part of them. */
function fullest(mean: number, prompts: number, config: Config): number {
  const { numGenerations, maxCompletionLength: cap } = config;
  const { scale, ...part } = drawnPart(prompts, numGenerations);
  const totals = Array.from({ length: DRAWS }, (_, draw) => sum(drawLengths(mean, { ...part, cap, draw })));
  const most = maximum(totals);
  if (scale === 1) return most;
  const middle = sum(totals) / DRAWS;
  // Prompts differ independently, so their sum's spread grows with the root of their number.
  const spread = (numGenerations / part.group) * Math.sqrt(prompts / part.prompts);
  return Math.round(scale * middle + spread * (most - middle));
}

/** Draws what `plannedWork` needs piece by piece, because that takes longest. */
export function* drawAhead(config: Config): Generator<void> {
  const { prompts, group } = drawnPart(groupsPerBatch(config), config.numGenerations);
  for (let draw = 0; draw < DRAWS; draw++) {
    drawLengths(1, { prompts, group, cap: 1, draw });
    yield;
  }
}

/** Prompts and completions of each that one of `ranks` processes samples. */
function sampledBy(ranks: number, prompts: number, group: number): Pick<PlannedWork, 'prompts' | 'group'> {
  const completions = Math.ceil((prompts * group) / ranks);
  const own = Math.min(prompts, Math.ceil(completions / samplesOfPart(ranks, prompts * group)));
  return { prompts: own, group: Math.ceil(completions / own) };
}

/** @param of.ranks processes that share a batch: the work is that of the one that has most */
export function plannedWork(
  config: Config,
  promptTokens: number,
  lengths: LengthTrajectory,
  of: { adapted?: readonly Adapted[] | undefined; ranks?: number | undefined } = {},
): PlannedWork {
  const { promptsPerStep, numGenerations, maxCompletionLength } = config;
  const { adapted = null, ranks = 1 } = of;
  const longestMean = Math.max(lengths.first, lengths.last);
  const prompts = groupsPerBatch(config);
  const sampled =
    ranks === 1 ? { prompts, group: numGenerations } : sampledBy(ranks, prompts, numGenerations);
  // Whoever has most is dealt the mean and one more, where others cannot be dealt it.
  const most = (whole: number, one: number) => Math.min(whole, Math.ceil(whole / ranks) + one);
  return {
    promptTokens,
    maxNewTokens: maxCompletionLength,
    ...sampled,
    promptsInFlight: config.groupsInFlight ?? sampled.prompts,
    prefillTokens: promptTokens + (config.groupsInFlight === null ? 0 : maxCompletionLength - 1),
    updateSequences: most(promptsPerStep * numGenerations, 1),
    maxSlots: config.maxSlots ?? DEFAULT_SLOTS,
    fullestUpdateTokens: most(fullest(longestMean, promptsPerStep, config), maxCompletionLength),
    fullestBatchTokens: most(fullest(longestMean, prompts, config), maxCompletionLength),
    scoringPasses: (updatesPerBatch(config) > 1 ? 1 : 0) + (config.beta !== 0 ? 1 : 0),
    ...trainedBy(config),
    adapted,
    kvBytes: config.kvBytes,
    kvCacheDtype: config.kvCacheDtype,
    numSpeculativeTokens: config.numSpeculativeTokens,
    served: servedBy(config) !== null,
    evalProblems: Math.ceil(Math.max(config.evalProblems, config.evalSampledProblems) / ranks),
    evalMaxNewTokens: config.evalMaxNewTokens,
  };
}

/** The linears that LoRA adapts; none when all weights are trained. */
export const adaptedBy = (
  shape: ModelShape,
  { adapted, loraRank, targetModules }: TrainingWork,
): readonly Adapted[] =>
  loraRank === null ? [] : (adapted ?? adaptedEverywhere(shape, loraRank, targetModules));

/** The number of parameters that are trained. */
export const trainedParameters = (shape: ModelShape, work: TrainingWork): number =>
  work.loraRank === null ? parameterCount(shape) : pairParameters(shape, adaptedBy(shape, work));

export interface MicroBatch {
  sequences: number;
  tokens: number;
  completionTokens: number;
}

/** The largest micro-batch of `sequences`. */
export function largestMicroBatch(
  work: PlannedWork,
  sequences: number,
  completionTokens: number,
): MicroBatch {
  const all = sequences * work.promptTokens + completionTokens;
  const longest = work.promptTokens + work.maxNewTokens;
  const tokens = Math.min(all, Math.max(work.microBatchTokens, Math.min(longest, all)));
  const part = (whole: number): number => Math.ceil((tokens * whole) / all);
  return { sequences: part(sequences), tokens, completionTokens: part(completionTokens) };
}
