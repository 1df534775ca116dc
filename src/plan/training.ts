/** Whether a run that trains on given sequences fits: its peak memory, and what to change. */
import type { Config } from '../config';
import { badUsage } from '../base/errors';
import { packByTokens } from '../base/packing';
import { maximum, minimum, sum } from '../base/statistics';
import { gigabytes } from '../base/text';
import { adviceOf, quantised, stepsToFit, type Step } from './advice';
import type { Adapted, ModelShape, TrainSequence } from './cost';
import type { PlanDevice } from './devices';
import { availableUnder, planTrainingMemory, type TrainingMemory } from './memory';
import type { PlannedModel } from './model-shape';
import { trainedBy, type MicroBatch, type TrainingConfig, type TrainingWork } from './workload';

export interface TrainingSettings extends TrainingConfig, Pick<Config, 'dtype' | 'memoryLimitBytes'> {
  batchSize: number;
  maxLength: number | null;
}

export interface TrainingPlanInput {
  config: TrainingSettings;
  model: PlannedModel;
  device: PlanDevice;
  /** Sequences that are trained on, and those that are only scored. */
  lengths: { training: readonly TrainSequence[]; scoring: readonly TrainSequence[] };
  /** What the adapter to be trained further adapts. Default: the configuration's modules in every layer. */
  adapted?: readonly Adapted[] | undefined;
}

export interface TrainingPlan {
  device: PlanDevice;
  memory: TrainingMemory;
  fits: boolean;
  /** Settings that make it fit; empty if it does already; null: none were found. */
  changes: { setting: keyof TrainingSettings; to: unknown }[] | null;
}

/** The largest pass that these sequences can be packed into. */
function largestPass(lengths: readonly TrainSequence[], budget: number): MicroBatch {
  const bins = packByTokens(
    lengths.map(({ tokens }) => tokens),
    budget,
  );
  const passes = bins.map((members) => ({
    sequences: members.length,
    tokens: sum(members.map((i) => lengths[i]!.tokens)),
    completionTokens: sum(members.map((i) => lengths[i]!.completionTokens)),
  }));
  return passes.reduce((a, b) => (b.tokens > a.tokens ? b : a));
}

/** Assumes that the longest sequences meet in one update; the order of an epoch decides whether they do. */
function memoryOf(
  { model, device, lengths, adapted }: TrainingPlanInput,
  config: TrainingSettings,
): TrainingMemory {
  const limit = config.maxLength ?? Infinity;
  const within = (all: readonly TrainSequence[]) => all.filter(({ tokens }) => tokens <= limit);
  const longest = within(lengths.training)
    .toSorted((a, b) => b.tokens - a.tokens)
    .slice(0, config.batchSize);
  const scored = within(lengths.scoring);
  const work: TrainingWork = {
    // No sequence shares its prompt with another, so only the longest one as a whole matters.
    promptTokens: 0,
    maxNewTokens: longest[0]!.tokens,
    group: 1,
    ...trainedBy(config),
    adapted: adapted ?? null,
  };
  const availableBytes = availableUnder(config.memoryLimitBytes, device, model);
  const dtype = config.dtype ?? model.storedDtype;
  return planTrainingMemory(
    { model, dtype, kind: device.kind, work, availableBytes },
    {
      training: largestPass(longest, config.microBatchTokens),
      scoring: scored.length === 0 ? null : largestPass(scored, config.microBatchTokens),
    },
  );
}

const SMALLEST_PASS = 512;
const SMALLEST_LENGTH = 256;

type Shrinking = Step<TrainingSettings, TrainingMemory>;

/** In order of preference: what changes only speed, then precision, then what is learnt. */
function stepsFor(lengths: readonly number[], shape: ModelShape): Shrinking[] {
  const shorter: Shrinking['next'] = ({ maxLength }) => {
    const now = Math.min(maxLength ?? Infinity, maximum(lengths));
    const next = Math.ceil(now / 2);
    return now / 2 >= SMALLEST_LENGTH && next >= minimum(lengths) ? next : null;
  };
  return [
    {
      setting: 'microBatchTokens',
      next: ({ microBatchTokens: now }) => (now / 2 >= SMALLEST_PASS ? now / 2 : null),
    },
    { setting: 'dtype', next: ({ dtype, full }) => (full || dtype === 'bfloat16' ? null : 'bfloat16') },
    { setting: 'quantization', next: quantised(shape) },
    { setting: 'maxLength', next: shorter },
  ];
}

/** Predicts the memory of a run that trains on given sequences. Pure. */
export function planTraining(input: TrainingPlanInput): TrainingPlan {
  const { device, config } = input;
  const fitsIn = (memory: TrainingMemory) => memory.peakBytes <= device.freeBytes;
  const memory = memoryOf(input, config);
  // Under a limit of its own, the run splits its passes until they fit.
  const fits = config.memoryLimitBytes !== null || fitsIn(memory);
  const steps = stepsFor(
    input.lengths.training.map(({ tokens }) => tokens),
    input.model.shape,
  );
  const found = fits ? [] : stepsToFit(config, steps, (asked) => memoryOf(input, asked), fitsIn);
  const changes = found?.map(({ step: { setting }, to }) => ({ setting, to })) ?? null;
  return { device, memory, fits, changes };
}

/** @throws BAD_CONFIG with the numbers and what to change if the plan does not fit */
export function assertTrainingFits({ memory, device, fits, changes }: TrainingPlan): void {
  if (fits) return;
  const { peakBytes, peakPhase } = memory;
  throw badUsage(
    `This run does not fit on ${device.name}: it needs ${gigabytes(peakBytes, 2)} (${peakPhase}), but only ${gigabytes(device.freeBytes, 2)} is available; ${adviceOf(changes)}. Add --ignore-plan (in a program: ignorePlan) to start anyway.`,
  );
}
