/** Time of a step by phase, and of a run: what must be read and multiplied, over the device's rates. */
import type { Config } from '../config';
import { packByTokens } from '../base/packing';
import { maximum, mean, sum } from '../base/statistics';
import {
  BYTES_PER_ELEMENT,
  decodeStepWork,
  floorSeconds,
  optimizerWork,
  passRows,
  prefillWork,
  scoreWork,
  sharesPrompts,
  trainWork,
  type Ceilings,
  type TrainSequence,
  type Work,
} from './cost';
import { decodeSeconds, inFlightSeconds, type BatchSeconds, type DecodeClock } from './decode-time';
import type { PlanDevice } from './devices';
import {
  gpuDecodeStepSeconds,
  gpuKernelSeconds,
  gpuPassSeconds,
  gpuPrefillSeconds,
  type DecodeOptions,
  type GpuCeilings,
  type PassSeconds,
} from './gpu-time';
import { dealtByLength, dealtOf } from '../base/dealing';
import { speculativeStep, type SpeculativeStep } from './speculation';
import { drawLengths, drawnPart, type DrawnPart, type LengthTrajectory } from './lengths';
import { trainedParameters } from './workload';
import { keptLayers, type MemoryInput, type MemoryPlan } from './memory';

export const STEP_PHASES = [
  'prefill',
  'decode',
  'scoring',
  'forward',
  'recomputation',
  'backward',
  'optimizer',
] as const;
export type StepSeconds = Record<(typeof STEP_PHASES)[number], number>;

/** At the device's rates, and as the engine is expected to reach them. */
interface Both<T> {
  limit: T;
  expected: T;
}

/** What takes so long by both clocks; once, if they are the same. */
function* byBoth<T>(
  { limit, expected }: Both<Clock>,
  seconds: (clock: Clock, of: keyof Both<T>) => Generator<void, T>,
): Generator<void, Both<T>> {
  const first = yield* seconds(limit, 'limit');
  return { limit: first, expected: limit === expected ? first : yield* seconds(expected, 'expected') };
}

export interface StepTime extends Both<StepSeconds> {
  /** Mean completion tokens after the cap. */
  meanTokens: number;
}

export interface RunTime {
  first: StepTime;
  last: StepTime;
  /** Mean over the run. */
  mean: StepTime;
  /** One evaluation as configured, at the run's mean lengths. */
  evaluation: Both<number> & { count: number };
  /** Device hours of the whole run, evaluations included: of all ranks together. */
  hours: Both<number>;
}

export interface TimeInput extends MemoryInput {
  config: Config;
  ranks: number;
  device: PlanDevice;
  lengths: LengthTrajectory;
  memory: MemoryPlan;
}

/** Points along the run. */
const POINTS = 13;
/** What is drawn at each: so many steps, or fewer of a large batch, which averages by itself. */
const MOST_DRAWS = 256;
const ENOUGH_SEQUENCES = 8192;

/** Even, because draws mirror each other in pairs. */
const drawsOf = (sequences: number): number =>
  Math.min(MOST_DRAWS, 2 * Math.ceil(ENOUGH_SEQUENCES / 2 / sequences));

export const stepTotal = (step: StepSeconds): number => sum(STEP_PHASES.map((name) => step[name]));

/** How long each kind of work takes: at the device's rates, or as the engine is expected to do it. */
interface Clock extends DecodeClock {
  /** Forward and backward; `recomputation` comes on top if activations are not kept. */
  pass: (sequences: readonly TrainSequence[]) => PassSeconds;
  score: (sequences: readonly TrainSequence[]) => number;
  optimizer: (parameters: number) => number;
}

const optionsOf = ({ dtype, work: { loraRank, quantization, kvCacheDtype } }: TimeInput): DecodeOptions => ({
  bytesPerElement: BYTES_PER_ELEMENT[dtype],
  loraRank,
  quantization,
  kvCacheDtype,
});

type DecodeStep = (contexts: readonly number[], speculation?: SpeculativeStep) => number;

/** With what is proposed: seconds of a step for each token that a sequence makes in it. */
function stepClock({ work, device }: TimeInput, seconds: DecodeStep): DecodeClock['decodeStep'] {
  const { numSpeculativeTokens } = work;
  if (numSpeculativeTokens === 0) return (contexts) => seconds(contexts);
  return (contexts) => {
    const step = speculativeStep(numSpeculativeTokens, contexts.length, device.kind);
    return seconds(contexts, step) / step.tokens;
  };
}

/** @param shares fractions of the device's rates that are reached */
function floorClock(
  input: TimeInput,
  ceilings: Ceilings,
  { bandwidth, matmul }: { bandwidth: number; matmul: number },
): Clock {
  const { shape } = input.model;
  const options = optionsOf(input);
  const seconds = (of: Work): number => floorSeconds(of, ceilings);
  return {
    decodeStep: stepClock(
      input,
      (contexts, step) =>
        seconds(decodeStepWork(shape, contexts, { ...options, rows: step?.rows })) / bandwidth,
    ),
    pass: (sequences) => {
      const forward = seconds(scoreWork(shape, sequences, options));
      const plain = seconds(trainWork(shape, sequences, { ...options, recompute: false }));
      const again = seconds(trainWork(shape, sequences, { ...options, recompute: true }));
      return {
        forward: forward / matmul,
        backward: (plain - forward) / matmul,
        recomputation: (again - plain) / matmul,
      };
    },
    score: (sequences) => seconds(scoreWork(shape, sequences, options)) / matmul,
    prefill: (tokens) =>
      seconds(prefillWork(shape, tokens, options.bytesPerElement, options.quantization)) / matmul,
    optimizer: (parameters) => seconds(optimizerWork(parameters)) / bandwidth,
  };
}

function expectedClock(input: TimeInput, ceilings: GpuCeilings): Clock {
  const { expected } = input.device;
  if (expected.by === 'fractions') return floorClock(input, ceilings, expected);
  const { shape } = input.model;
  const { shares } = expected;
  const options = optionsOf(input);
  const pass = (sequences: readonly TrainSequence[]): PassSeconds =>
    gpuPassSeconds(shape, sequences, options, ceilings, shares);
  return {
    decodeStep: stepClock(input, (contexts, speculation) =>
      gpuDecodeStepSeconds(shape, contexts, { ...options, speculation }, ceilings, shares),
    ),
    pass,
    score: (sequences) => pass(sequences).forward,
    prefill: (tokens) => gpuPrefillSeconds(shape, tokens, options, ceilings, shares),
    optimizer: (parameters) => gpuKernelSeconds(optimizerWork(parameters), ceilings, shares),
  };
}

/** The sequences of one pass, group by group. */
function passOf(
  { config, work, device, dtype }: TimeInput,
  sequences: readonly TrainSequence[],
  bin: readonly number[],
): TrainSequence[] {
  const { kind } = device;
  const longest = maximum(bin.map((i) => sequences[i]!.tokens));
  const shares = sharesPrompts({ kind, dtype, longest, dropout: work.loraDropout });
  const groupOf = (i: number | undefined) => (i === undefined ? null : Math.floor(i / config.numGenerations));
  return bin.map((i, place) => {
    const follows = groupOf(i) === groupOf(bin[place - 1]);
    return { ...sequences[i]!, sharedTokens: shares && follows ? work.promptTokens - 1 : 0 };
  });
}

/** Seconds of an update's passes over the batch. */
function trainingSeconds(input: TimeInput, sequences: readonly TrainSequence[], clock: Clock) {
  const { work, memory, model, device } = input;
  const seconds = { scoring: 0, forward: 0, recomputation: 0, backward: 0 };
  for (const bin of packByTokens(
    sequences.map((s) => s.tokens),
    work.microBatchTokens,
  )) {
    const members = passOf(input, sequences, bin);
    const pass = clock.pass(members);
    seconds.scoring += work.scoringPasses * clock.score(members);
    seconds.forward += pass.forward;
    seconds.backward += pass.backward;
    const { numLayers } = model.shape;
    const kept = keptLayers(memory.keptTokens, passRows(members), numLayers, device.kind);
    seconds.recomputation += (1 - kept / numLayers) * pass.recomputation;
  }
  return seconds;
}

/** Of the completions of groups of `group`, those of the rank that samples the longest one, in its order. */
function slowestShare(ranks: number, lengths: readonly number[], group: number): readonly number[] {
  if (ranks === 1) return lengths;
  const groups = Array.from({ length: lengths.length / group }, (_, i) =>
    lengths.slice(i * group, (i + 1) * group),
  );
  const hands = dealtByLength(ranks, groups.map(mean), group).map((hand) => dealtOf(hand, groups));
  const longest = maximum(lengths);
  return hands.find((hand) => hand.includes(longest))!;
}

/** Lengths of completions that stand for an update's, each for `scale` of them. */
interface DrawnStep {
  all: readonly number[];
  /** Those of the rank that samples longest. */
  sampled: readonly number[];
  scale: number;
}

/**
 * Seconds of one update (`promptsPerStep` groups). Several ranks share it; what they send each other is not counted.
 * @param continued what sampling takes with groups in flight, which the lengths of one update do not tell
 */
function* stepSeconds(
  input: TimeInput,
  { all, sampled, scale }: DrawnStep,
  clock: Clock,
  continued: BatchSeconds | null,
): Generator<void, StepSeconds> {
  const { config, model, work, ranks } = input;
  const sequences = all.map((length) => ({
    tokens: work.promptTokens + length,
    completionTokens: length,
  }));
  const training = trainingSeconds(input, sequences, clock);
  yield;
  const { decode, prefill } = continued ?? (yield* ownSeconds(input, sampled, clock));
  const trained = trainedParameters(model.shape, work);
  // A batch is generated and scored once for `numIterations` passes over it.
  const share = 1 / config.numIterations;
  const own = scale / ranks;
  return {
    forward: own * training.forward,
    recomputation: own * training.recomputation,
    backward: own * training.backward,
    scoring: share * own * training.scoring,
    prefill: (share * prefill) / config.stepsPerGeneration,
    decode: share * scale * decode,
    optimizer: clock.optimizer(trained),
  };
}

/** Sampling of an update's own completions: decoding those of these lengths, and prefill of the whole batch. */
function* ownSeconds(
  { work, memory: { kv } }: TimeInput,
  lengths: readonly number[],
  clock: Clock,
): Generator<void, BatchSeconds> {
  // What servers need is not known here.
  if (kv === null) return { decode: 0, prefill: 0 };
  const decode = yield* decodeSeconds(work.promptTokens, lengths, kv, clock.decodeStep);
  return { decode, prefill: work.prompts * clock.prefill(work.promptTokens) };
}

/** With groups in flight: decoding of an update, and prefill of a batch. @param lengths of each draw */
function* continuedSeconds(
  { config, work, memory: { kv } }: TimeInput,
  lengths: readonly (readonly number[])[],
  { prompts, group, scale }: DrawnPart,
  clock: Clock,
): Generator<void, BatchSeconds> {
  const { groupsInFlight, promptsPerStep, stepsPerGeneration } = config;
  // Two draws that mirror each other are kept apart.
  const apart = [0, 1].flatMap((odd) => lengths.filter((_, draw) => draw % 2 === odd)).flat();
  const groups = Array.from({ length: apart.length / group }, (_, i) =>
    apart.slice(i * group, (i + 1) * group),
  );
  const part = {
    promptsPerStep: prompts,
    groupsInFlight: Math.ceil((groupsInFlight! * prompts) / promptsPerStep),
  };
  const batch = yield* inFlightSeconds({ ...config, ...part }, work.promptTokens, groups, kv!, clock);
  return { decode: batch.decode / stepsPerGeneration, prefill: scale * batch.prefill };
}

function meanOf(steps: readonly Both<StepSeconds>[]): Both<StepSeconds> {
  const of = (kind: keyof Both<unknown>) =>
    Object.fromEntries(STEP_PHASES.map((name) => [name, mean(steps.map((step) => step[kind][name]))]));
  return { limit: of('limit') as StepSeconds, expected: of('expected') as StepSeconds };
}

function* timeAt(input: TimeInput, meanLength: number, clocks: Both<Clock>): Generator<void, StepTime> {
  const { promptsPerStep, numGenerations, maxCompletionLength: cap, groupsInFlight } = input.config;
  const part = drawnPart(promptsPerStep, numGenerations);
  const { scale } = part;
  const draws = drawsOf(part.prompts * part.group);
  const lengths = Array.from({ length: draws }, (_, draw) => drawLengths(meanLength, { ...part, cap, draw }));
  const continued =
    groupsInFlight === null
      ? null
      : yield* byBoth(clocks, (clock) => continuedSeconds(input, lengths, part, clock));
  const steps: Both<StepSeconds>[] = [];
  for (const all of lengths) {
    const step = { all, sampled: slowestShare(input.ranks, all, part.group), scale };
    steps.push(
      yield* byBoth(clocks, (clock, of) => stepSeconds(input, step, clock, continued?.[of] ?? null)),
    );
  }
  const tokens = sum(lengths.map(sum));
  return { meanTokens: tokens / (draws * part.prompts * part.group), ...meanOf(steps) };
}

/** Greedy and sampled problems decoded in the configured slots; grading overlaps. */
function* evaluationTime(input: TimeInput, clocks: Both<Clock>): Generator<void, RunTime['evaluation']> {
  const { config, lengths, memory } = input;
  const problems = config.evalProblems + config.evalSampledProblems;
  const between = config.evalSteps === 0 ? 0 : Math.floor((config.maxSteps - 1) / config.evalSteps);
  if (problems === 0) return { limit: 0, expected: 0, count: 0 };
  const { scale, ...part } = drawnPart(problems, 1);
  const all = drawLengths((lengths.first + lengths.last) / 2, {
    ...part,
    cap: config.evalMaxNewTokens,
    draw: 0,
  });
  const drawn = all.filter((_, i) => i % input.ranks === 0);
  const kv = memory.evaluationKv!;
  const { promptTokens } = input.work;
  const both = yield* byBoth(clocks, ({ decodeStep }) => decodeSeconds(promptTokens, drawn, kv, decodeStep));
  const [limit, expected] = [scale * both.limit, scale * both.expected];
  return { limit, expected, count: between + 2 };
}

/**
 * null if the device's rates are unknown. Yields between pieces of the work.
 * @param of.points lengths along the run; 1: its middle
 * @param of.limits false: saves the time for them, and what is expected stands in their place
 */
export function* planTime(
  input: TimeInput,
  { points = POINTS, limits = true }: { points?: number; limits?: boolean } = {},
): Generator<void, RunTime | null> {
  const { lengths, config } = input;
  const { ceilings } = input.device;
  if (ceilings === null) return null;
  const expected = expectedClock(input, ceilings);
  const clocks = {
    limit: limits ? floorClock(input, ceilings, { bandwidth: 1, matmul: 1 }) : expected,
    expected,
  };
  const times: StepTime[] = [];
  for (let i = 0; i < points; i++) {
    const part = points === 1 ? 1 / 2 : i / (points - 1);
    const length = part === 0 ? lengths.first : lengths.first + (lengths.last - lengths.first) * part;
    times.push(yield* timeAt(input, length, clocks));
  }
  const overall = { meanTokens: mean(times.map(({ meanTokens }) => meanTokens)), ...meanOf(times) };
  const evaluation = yield* evaluationTime(input, clocks);
  const hours = (kind: keyof Both<unknown>): number =>
    (input.ranks * (config.maxSteps * stepTotal(overall[kind]) + evaluation.count * evaluation[kind])) / 3600;
  return {
    first: times[0]!,
    last: times.at(-1)!,
    mean: overall,
    evaluation,
    hours: { limit: hours('limit'), expected: hours('expected') },
  };
}
