/** Time of a step by phase and of a run: what must be read and multiplied over the device's rates. */
import type { Config } from '../config';
import { packByTokens } from '../packing';
import {
  BYTES_PER_ELEMENT,
  floorSeconds,
  loraParameters,
  optimizerWork,
  prefillWork,
  scoreWork,
  trainWork,
  type Ceilings,
  type TrainSequence,
} from './cost';
import { decodeSeconds } from './decode-time';
import type { PlanDevice } from './devices';
import { drawLengths, type LengthTrajectory } from './lengths';
import type { MemoryInput, MemoryPlan } from './memory';

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
  /** At the device's rates, and expected at the engine's fraction of them. */
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

/** Number of points along the run, and steps drawn at each. */
const POINTS = 13;
const DRAWS = 256;

export const stepTotal = (step: StepSeconds): number =>
  STEP_PHASES.reduce((sum, name) => sum + step[name], 0);

/** Seconds of each update's passes over the batch, at the ceilings. */
function trainingSeconds(input: TimeInput, sequences: readonly TrainSequence[], ceilings: Ceilings) {
  const { model, dtype, work, memory } = input;
  const options = { bytesPerElement: BYTES_PER_ELEMENT[dtype], loraRank: work.loraRank };
  const seconds = { scoring: 0, forward: 0, recomputation: 0, backward: 0 };
  for (const bin of packByTokens(
    sequences.map((s) => s.tokens),
    work.microBatchTokens,
  )) {
    const members = bin.map((i) => sequences[i]!);
    const forward = floorSeconds(scoreWork(model.shape, members, options), ceilings);
    const plain = floorSeconds(trainWork(model.shape, members, { ...options, recompute: false }), ceilings);
    const again = floorSeconds(trainWork(model.shape, members, { ...options, recompute: true }), ceilings);
    seconds.scoring += work.scoringPasses * forward;
    seconds.forward += forward;
    seconds.backward += plain - forward;
    seconds.recomputation += memory.keepsActivations ? 0 : again - plain;
  }
  return seconds;
}

/** Seconds of one update on these completion lengths (`promptsPerStep` groups), at the ceilings. */
function stepSeconds(input: TimeInput, lengths: readonly number[], ceilings: Ceilings): StepSeconds {
  const { config, model, dtype, work, memory } = input;
  const bytesPerElement = BYTES_PER_ELEMENT[dtype];
  const prompts = config.promptsPerStep;
  const sequences = lengths.map((length) => ({
    tokens: work.promptTokens + length,
    completionTokens: length,
  }));
  const training = trainingSeconds(input, sequences, ceilings);
  const plan = { ...work, slots: Math.max(1, memory.kv.slots), bytesPerElement };
  const trained = loraParameters(model.shape, work.loraRank, work.targetModules);
  // A batch is generated and scored once for `numIterations` passes over it.
  const share = 1 / config.numIterations;
  return {
    ...training,
    scoring: share * training.scoring,
    prefill:
      share * prompts * floorSeconds(prefillWork(model.shape, work.promptTokens, bytesPerElement), ceilings),
    decode: share * decodeSeconds(model.shape, lengths, plan, ceilings),
    optimizer: floorSeconds(optimizerWork(trained), ceilings),
  };
}

function expectedSeconds(limit: StepSeconds, { bandwidth, matmul }: PlanDevice['efficiency']): StepSeconds {
  const readBound = (name: string): boolean => name === 'decode' || name === 'optimizer';
  return Object.fromEntries(
    STEP_PHASES.map((name) => [name, limit[name] / (readBound(name) ? bandwidth : matmul)]),
  ) as unknown as StepSeconds;
}

function meanOf(steps: readonly StepSeconds[]): StepSeconds {
  return Object.fromEntries(
    STEP_PHASES.map((name) => [name, steps.reduce((sum, step) => sum + step[name], 0) / steps.length]),
  ) as unknown as StepSeconds;
}

function timeAt(input: TimeInput, mean: number, ceilings: Ceilings): StepTime {
  const { promptsPerStep: prompts, numGenerations: group, maxCompletionLength: cap } = input.config;
  const draws = Array.from({ length: DRAWS }, (_, draw) => drawLengths(mean, { prompts, group, cap, draw }));
  const all = draws.flat();
  const limit = meanOf(draws.map((lengths) => stepSeconds(input, lengths, ceilings)));
  return {
    meanTokens: all.reduce((sum, length) => sum + length, 0) / all.length,
    limit,
    expected: expectedSeconds(limit, input.device.efficiency),
  };
}

/** Greedy and sampled problems decoded in the configured slots; grading overlaps. */
function evaluationTime(input: TimeInput, ceilings: Ceilings): RunTime['evaluation'] {
  const { config, model, dtype, work, lengths, memory, device } = input;
  const problems = config.evalProblems + config.evalSampledProblems;
  const between = config.evalSteps === 0 ? 0 : Math.floor((config.maxSteps - 1) / config.evalSteps);
  if (problems === 0) return { limit: 0, expected: 0, count: 0 };
  const mean = (lengths.first + lengths.last) / 2;
  const drawn = drawLengths(mean, { prompts: problems, group: 1, cap: config.evalMaxNewTokens, draw: 0 });
  const slots = Math.max(1, memory.evaluationKv?.slots ?? 1);
  const limit = decodeSeconds(
    model.shape,
    drawn,
    { ...work, slots, bytesPerElement: BYTES_PER_ELEMENT[dtype] },
    ceilings,
  );
  return { limit, expected: limit / device.efficiency.bandwidth, count: between + 2 };
}

/** null if the device's rates are unknown. */
export function planTime(input: TimeInput): RunTime | null {
  const { lengths, config } = input;
  const { ceilings } = input.device;
  if (ceilings === null) return null;
  const points = Array.from({ length: POINTS }, (_, i) => {
    const mean = lengths.first + ((lengths.last - lengths.first) * i) / (POINTS - 1);
    return timeAt(input, mean, ceilings);
  });
  const mean: StepTime = {
    meanTokens: points.reduce((sum, point) => sum + point.meanTokens, 0) / POINTS,
    limit: meanOf(points.map((point) => point.limit)),
    expected: meanOf(points.map((point) => point.expected)),
  };
  const evaluation = evaluationTime(input, ceilings);
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
