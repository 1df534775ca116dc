/** Time of a step by phase and of a run: what must be read and multiplied over the device's rates. */
import type { Config } from '../config';
import { packByTokens } from '../base/packing';
import { maximum } from '../base/statistics';
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
import { decodeSeconds } from './decode-time';
import type { PlanDevice } from './devices';
import {
  gpuDecodeStepSeconds,
  gpuKernelSeconds,
  gpuPassSeconds,
  gpuProductSeconds,
  type PassSeconds,
} from './gpu-time';
import { drawLengths, drawnPart, type LengthTrajectory } from './lengths';
import { trainedParameters } from './workload';
import { keptLayers, type MemoryInput, type MemoryPlan } from './memory';

export interface StepSeconds {
  prefill: number;
  decode: number;
  scoring: number;
  forward: number;
  recomputation: number;
  backward: number;
  optimizer: number;
}
export const STEP_PHASES = [
  'prefill',
  'decode',
  'scoring',
  'forward',
  'recomputation',
  'backward',
  'optimizer',
] as const satisfies readonly (keyof StepSeconds)[];

export interface StepTime {
  /** Mean completion tokens after the cap. */
  meanTokens: number;
  /** At the device's rates, and as the engine is expected to reach them. */
  limit: StepSeconds;
  expected: StepSeconds;
}

export interface RunTime {
  first: StepTime;
  last: StepTime;
  /** Mean over the run. */
  mean: StepTime;
  /** One evaluation as configured, at the run's mean lengths. */
  evaluation: { limit: number; expected: number; count: number };
  /** Device hours of the whole run, evaluations included. */
  hours: { limit: number; expected: number };
}

export interface TimeInput extends MemoryInput {
  config: Config;
  device: PlanDevice;
  lengths: LengthTrajectory;
  memory: MemoryPlan;
}

/** Points along the run. */
const POINTS = 13;
/** What is drawn at each: this many steps, or fewer of a large batch, which averages by itself. */
const MOST_DRAWS = 256;
const ENOUGH_SEQUENCES = 8192;

/** Even, because draws mirror each other in pairs. */
const drawsOf = (sequences: number): number =>
  Math.min(MOST_DRAWS, 2 * Math.ceil(ENOUGH_SEQUENCES / 2 / sequences));

export const stepTotal = (step: StepSeconds): number =>
  STEP_PHASES.reduce((sum, name) => sum + step[name], 0);

/** How long each kind of work takes: at the device's rates, or as the engine is expected to do it. */
interface Clock {
  decodeStep: (contextLengths: readonly number[]) => number;
  /** One forward and backward; recomputation is what it adds if activations are not kept. */
  pass: (sequences: readonly TrainSequence[]) => PassSeconds;
  score: (sequences: readonly TrainSequence[]) => number;
  prefill: (promptTokens: number) => number;
  optimizer: (parameters: number) => number;
}

function limitClock({ model: { shape }, dtype, work }: TimeInput, ceilings: Ceilings): Clock {
  const bytesPerElement = BYTES_PER_ELEMENT[dtype];
  const options = { bytesPerElement, loraRank: work.loraRank };
  const seconds = (of: Work): number => floorSeconds(of, ceilings);
  const score = (sequences: readonly TrainSequence[]): number =>
    seconds(scoreWork(shape, sequences, options));
  return {
    decodeStep: (contexts) => seconds(decodeStepWork(shape, contexts, options)),
    pass: (sequences) => {
      const forward = score(sequences);
      const plain = seconds(trainWork(shape, sequences, { ...options, recompute: false }));
      const again = seconds(trainWork(shape, sequences, { ...options, recompute: true }));
      return { forward, backward: plain - forward, recomputation: again - plain };
    },
    score,
    prefill: (tokens) => seconds(prefillWork(shape, tokens, bytesPerElement)),
    optimizer: (parameters) => seconds(optimizerWork(parameters)),
  };
}

function expectedClock(input: TimeInput, ceilings: Ceilings): Clock {
  const { expected } = input.device;
  const limit = limitClock(input, ceilings);
  if (expected.by === 'fractions') {
    const { bandwidth, matmul } = expected;
    return {
      decodeStep: (contexts) => limit.decodeStep(contexts) / bandwidth,
      pass: (sequences) => {
        const { forward, backward, recomputation } = limit.pass(sequences);
        return {
          forward: forward / matmul,
          backward: backward / matmul,
          recomputation: recomputation / matmul,
        };
      },
      score: (sequences) => limit.score(sequences) / matmul,
      prefill: (tokens) => limit.prefill(tokens) / matmul,
      optimizer: (parameters) => limit.optimizer(parameters) / bandwidth,
    };
  }
  const { shape } = input.model;
  const { shares } = expected;
  const bytesPerElement = BYTES_PER_ELEMENT[input.dtype];
  const options = { bytesPerElement, loraRank: input.work.loraRank };
  const pass = (sequences: readonly TrainSequence[]): PassSeconds =>
    gpuPassSeconds(shape, sequences, options, ceilings, shares);
  return {
    decodeStep: (contexts) => gpuDecodeStepSeconds(shape, contexts, options, ceilings, shares),
    pass,
    score: (sequences) => pass(sequences).forward,
    prefill: (tokens) => gpuProductSeconds(prefillWork(shape, tokens, bytesPerElement), ceilings, shares),
    optimizer: (parameters) => gpuKernelSeconds(optimizerWork(parameters), ceilings, shares),
  };
}

/** The sequences of one pass, group by group. */
function passOf(
  { work, device, dtype }: TimeInput,
  sequences: readonly TrainSequence[],
  bin: readonly number[],
): TrainSequence[] {
  const { kind } = device;
  const longest = maximum(bin.map((i) => sequences[i]!.tokens));
  const shares = sharesPrompts({ kind, dtype, longest, dropout: work.loraDropout });
  const groupOf = (i: number | undefined) => (i === undefined ? null : Math.floor(i / work.group));
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

/** Seconds of one update (`promptsPerStep` groups), `scale` times what these completion lengths take. */
function* stepSeconds(
  input: TimeInput,
  lengths: readonly number[],
  scale: number,
  clock: Clock,
): Generator<void, StepSeconds> {
  const { config, model, work, memory } = input;
  const sequences = lengths.map((length) => ({
    tokens: work.promptTokens + length,
    completionTokens: length,
  }));
  const training = trainingSeconds(input, sequences, clock);
  yield;
  const decode = yield* decodeSeconds(
    lengths,
    { promptTokens: work.promptTokens, slots: Math.max(1, memory.kv.slots) },
    clock.decodeStep,
  );
  const trained = trainedParameters(model.shape, work);
  // A batch is generated and scored once for `numIterations` passes over it.
  const share = 1 / config.numIterations;
  return {
    forward: scale * training.forward,
    recomputation: scale * training.recomputation,
    backward: scale * training.backward,
    scoring: share * scale * training.scoring,
    prefill: share * config.promptsPerStep * clock.prefill(work.promptTokens),
    decode: share * scale * decode,
    optimizer: clock.optimizer(trained),
  };
}

function meanOf(steps: readonly StepSeconds[]): StepSeconds {
  return Object.fromEntries(
    STEP_PHASES.map((name) => [name, steps.reduce((sum, step) => sum + step[name], 0) / steps.length]),
  ) as unknown as StepSeconds;
}

interface Clocks {
  limit: Clock;
  expected: Clock;
}

function* timeAt(input: TimeInput, mean: number, clocks: Clocks): Generator<void, StepTime> {
  const { promptsPerStep, numGenerations, maxCompletionLength: cap } = input.config;
  const { scale, ...part } = drawnPart(promptsPerStep, numGenerations);
  const limit: StepSeconds[] = [];
  const expected: StepSeconds[] = [];
  let tokens = 0;
  const draws = drawsOf(part.prompts * part.group);
  for (let draw = 0; draw < draws; draw++) {
    const lengths = drawLengths(mean, { ...part, cap, draw });
    tokens += lengths.reduce((sum, length) => sum + length, 0);
    limit.push(yield* stepSeconds(input, lengths, scale, clocks.limit));
    expected.push(yield* stepSeconds(input, lengths, scale, clocks.expected));
  }
  return {
    meanTokens: tokens / (draws * part.prompts * part.group),
    limit: meanOf(limit),
    expected: meanOf(expected),
  };
}

/** Greedy and sampled problems decoded in the configured slots; grading overlaps. */
function* evaluationTime(input: TimeInput, clocks: Clocks): Generator<void, RunTime['evaluation']> {
  const { config, work, lengths, memory } = input;
  const problems = config.evalProblems + config.evalSampledProblems;
  const between = config.evalSteps === 0 ? 0 : Math.floor((config.maxSteps - 1) / config.evalSteps);
  if (problems === 0) return { limit: 0, expected: 0, count: 0 };
  const mean = (lengths.first + lengths.last) / 2;
  const { scale, ...part } = drawnPart(problems, 1);
  const drawn = drawLengths(mean, { ...part, cap: config.evalMaxNewTokens, draw: 0 });
  const plan = {
    promptTokens: work.promptTokens,
    slots: Math.max(1, memory.evaluationKv?.slots ?? 1),
  };
  const limit = scale * (yield* decodeSeconds(drawn, plan, clocks.limit.decodeStep));
  const expected = scale * (yield* decodeSeconds(drawn, plan, clocks.expected.decodeStep));
  return { limit, expected, count: between + 2 };
}

/** null if the device's rates are unknown. Yields between pieces of the work. */
export function* planTime(input: TimeInput): Generator<void, RunTime | null> {
  const { lengths, config } = input;
  const { ceilings } = input.device;
  if (ceilings === null) return null;
  const clocks = { limit: limitClock(input, ceilings), expected: expectedClock(input, ceilings) };
  const points: StepTime[] = [];
  for (let i = 0; i < POINTS; i++) {
    const mean = lengths.first + ((lengths.last - lengths.first) * i) / (POINTS - 1);
    points.push(yield* timeAt(input, mean, clocks));
  }
  const mean: StepTime = {
    meanTokens: points.reduce((sum, point) => sum + point.meanTokens, 0) / POINTS,
    limit: meanOf(points.map((point) => point.limit)),
    expected: meanOf(points.map((point) => point.expected)),
  };
  const evaluation = yield* evaluationTime(input, clocks);
  const hours = (kind: 'limit' | 'expected'): number =>
    (config.maxSteps * stepTotal(mean[kind]) + evaluation.count * evaluation[kind]) / 3600;
  return {
    first: points[0]!,
    last: points[POINTS - 1]!,
    mean,
    evaluation,
    hours: { limit: hours('limit'), expected: hours('expected') },
  };
}
