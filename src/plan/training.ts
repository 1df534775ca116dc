/** Whether a run that trains on given sequences fits: its peak memory, and what to change. */
import type { Config } from '../config';
import { AcoerError } from '../base/errors';
import { packByTokens } from '../base/packing';
import { gigabytes } from '../base/text';
import type { Adapted } from './cost';
import type { PlanDevice } from './devices';
import { availableUnder, planTrainingMemory, type TrainingMemory } from './memory';
import type { PlannedModel } from './model-shape';
import type { MicroBatch, TrainingWork } from './workload';

export interface TrainingSettings extends Pick<
  Config,
  'dtype' | 'memoryLimitBytes' | 'microBatchTokens' | 'full' | 'loraRank' | 'loraDropout' | 'targetModules'
> {
  batchSize: number;
  maxLength: number | null;
}

/** Tokens of a sequence: prompt and completion, and the completion alone. */
export interface SequenceLength {
  tokens: number;
  completionTokens: number;
}

export interface TrainingPlanInput {
  config: TrainingSettings;
  model: PlannedModel;
  device: PlanDevice;
  /** Of the sequences that are trained on, and of those that are only scored. */
  lengths: { training: readonly SequenceLength[]; scoring: readonly SequenceLength[] };
  /** What an adapter that training continues adapts. Default: the configuration's modules in every layer. */
  adapted?: readonly Adapted[] | undefined;
}

type Setting = 'microBatchTokens' | 'dtype' | 'maxLength';

export interface TrainingPlan {
  device: PlanDevice;
  memory: TrainingMemory;
  fits: boolean;
  /** Settings with which it fits; none if it does; null: none was found. */
  changes: { setting: Setting; to: number | string }[] | null;
}

/** The pass with the most tokens that these sequences can be packed into. */
function largestPass(lengths: readonly SequenceLength[], budget: number): MicroBatch {
  const tokensOf = (members: readonly number[], of: keyof SequenceLength) =>
    members.reduce((sum, i) => sum + lengths[i]![of], 0);
  const bins = packByTokens(
    lengths.map(({ tokens }) => tokens),
    budget,
  );
  const passes = bins.map((members) => ({
    sequences: members.length,
    tokens: tokensOf(members, 'tokens'),
    completionTokens: tokensOf(members, 'completionTokens'),
  }));
  return passes.reduce((a, b) => (b.tokens > a.tokens ? b : a));
}

/** Every update is taken to have the longest sequences: which meet is decided by the order of an epoch. */
function memoryOf(
  { model, device, lengths, adapted }: TrainingPlanInput,
  config: TrainingSettings,
): TrainingMemory {
  const limit = config.maxLength ?? Infinity;
  const within = (all: readonly SequenceLength[]) => all.filter(({ tokens }) => tokens <= limit);
  const longest = within(lengths.training)
    .toSorted((a, b) => b.tokens - a.tokens)
    .slice(0, config.batchSize);
  const scored = within(lengths.scoring);
  const { microBatchTokens, full, loraRank, loraDropout, targetModules } = config;
  const work: TrainingWork = {
    // Only the longest sequence as a whole matters: none shares its prompt with another.
    promptTokens: 0,
    maxNewTokens: longest[0]!.tokens,
    group: 1,
    microBatchTokens,
    loraRank: full ? null : loraRank,
    loraDropout: full ? 0 : loraDropout,
    targetModules,
    adapted: adapted ?? null,
  };
  const availableBytes = availableUnder(config.memoryLimitBytes, device.freeBytes, device.kind, model);
  const dtype = config.dtype ?? model.storedDtype;
  return planTrainingMemory(
    { model, dtype, kind: device.kind, work, availableBytes },
    {
      training: largestPass(longest, microBatchTokens),
      scoring: scored.length === 0 ? null : largestPass(scored, microBatchTokens),
    },
  );
}

const SMALLEST_PASS = 512;
const SMALLEST_LENGTH = 256;

/** In order of preference: what changes only speed, then precision, then what is learnt. */
const STEPS: readonly ((config: TrainingSettings, longest: number) => Partial<TrainingSettings> | null)[] = [
  ({ microBatchTokens: now }) => (now / 2 >= SMALLEST_PASS ? { microBatchTokens: now / 2 } : null),
  ({ dtype, full }) => (full || dtype === 'bfloat16' ? null : { dtype: 'bfloat16' }),
  ({ maxLength }, longest) => {
    const now = Math.min(maxLength ?? Infinity, longest);
    return now / 2 >= SMALLEST_LENGTH ? { maxLength: Math.ceil(now / 2) } : null;
  },
];

function changesToFit(input: TrainingPlanInput, fits: (config: TrainingSettings) => boolean) {
  const { training } = input.lengths;
  const longest = training.reduce((most, { tokens }) => Math.max(most, tokens), 0);
  const shortest = training.reduce((least, { tokens }) => Math.min(least, tokens), Infinity);
  let now = input.config;
  for (const step of STEPS) {
    for (let next = step(now, longest); next !== null && !fits(now); next = step(now, longest)) {
      if ((next.maxLength ?? Infinity) < shortest) break;
      now = { ...now, ...next };
    }
  }
  if (!fits(now)) return null;
  return (['microBatchTokens', 'dtype', 'maxLength'] as const)
    .filter((setting) => now[setting] !== input.config[setting])
    .filter((setting) => !fits({ ...now, [setting]: input.config[setting] }))
    .map((setting) => ({ setting, to: now[setting]! }));
}

/** Predicts the memory of a run that trains on given sequences. Pure. */
export function planTraining(input: TrainingPlanInput): TrainingPlan {
  const { device, config } = input;
  const fitsIn = (memory: TrainingMemory) => memory.peakBytes <= device.freeBytes;
  const memory = memoryOf(input, config);
  // Under a limit of its own the run splits its passes until they fit.
  const fits = config.memoryLimitBytes !== null || fitsIn(memory);
  const changes = fits ? [] : changesToFit(input, (asked) => fitsIn(memoryOf(input, asked)));
  return { device, memory, fits, changes };
}

/** @throws BAD_CONFIG with the numbers and what to change if the plan does not fit */
export function assertTrainingFits({ memory, device, fits, changes }: TrainingPlan): void {
  if (fits) return;
  const { peakBytes, peakPhase } = memory;
  const advice =
    changes === null
      ? 'no setting makes it fit; use a smaller model or a larger device'
      : `try ${changes.map(({ setting, to }) => `--set ${setting}=${to}`).join(' ')}`;
  throw new AcoerError(
    'BAD_CONFIG',
    `This run does not fit on ${device.name}: it needs ${gigabytes(peakBytes, 2)} (${peakPhase}), but only ${gigabytes(device.freeBytes, 2)} is available; ${advice}. Add --ignore-plan (in a program: ignorePlan) to start anyway.`,
  );
}
