/** Which settings to change, and to what, so that a run fits or goes faster. */
import type { Config } from '../config';
import type { PlanDevice } from './devices';
import { KV_SHARE_TEXT } from './kv';
import type { MemoryPlan } from './memory';

export interface Change {
  setting: keyof Config;
  from: Config[keyof Config];
  to: Config[keyof Config];
  why: string;
}

/** One way to make a run smaller. */
export interface Step<Settings, Memory> {
  setting: keyof Settings;
  /** The next value to try, or null when there is none. */
  next: (settings: Settings, memory: Memory) => Settings[keyof Settings] | null;
}

const SMALLEST_MICRO_BATCH = 512;
const SMALLEST_COMPLETION = 256;
const half = (tokens: number): number => 256 * Math.ceil(tokens / 2 / 256);

/** In order of preference: settings that change only speed, then precision, then the run itself. */
const STEPS: readonly (Step<Config, MemoryPlan> & { why: string })[] = [
  {
    setting: 'microBatchTokens',
    next: ({ microBatchTokens: now }, memory) =>
      // A sequence is never split, so no budget below the longest one helps.
      memory.peakPhase === 'training' && now / 2 >= SMALLEST_MICRO_BATCH && memory.microBatchTokens >= now / 2
        ? now / 2
        : null,
    why: 'smaller training passes; the gradient stays the same',
  },
  {
    setting: 'dtype',
    next: ({ dtype }) => (dtype === 'bfloat16' ? null : 'bfloat16'),
    why: 'two bytes per element for weights, activations and KV cache',
  },
  {
    setting: 'evalMaxNewTokens',
    next: ({ evalMaxNewTokens: now }, memory) =>
      now / 2 >= SMALLEST_COMPLETION &&
      (memory.evaluationKv?.slots === 0 || memory.peakPhase === 'evaluation')
        ? half(now)
        : null,
    why: 'shorter answers in evaluations',
  },
  {
    setting: 'maxCompletionLength',
    next: ({ maxCompletionLength: now }) => (now / 2 >= SMALLEST_COMPLETION ? half(now) : null),
    why: 'shorter completions; this changes the run',
  },
];

/** A plan fits if its peak is available and a full-length sequence gets a slot, in evaluations too. */
export function fits(memory: MemoryPlan, availableBytes: number): boolean {
  return memory.peakBytes <= availableBytes && memory.kv?.slots !== 0 && memory.evaluationKv?.slots !== 0;
}

/**
 * The configuration as the run itself reduces it under `memoryLimitBytes`: training passes and concurrent
 * sequences are halved until they fit or cannot be halved again. Without that limit a CPU raises no error to
 * react to, so nothing is reduced.
 */
export function cutToFit(
  config: Config,
  availableBytes: number,
  predict: (config: Config) => MemoryPlan,
): Config {
  if (config.memoryLimitBytes === null) return config;
  let now = config;
  let memory = predict(now);
  while (!fits(memory, availableBytes)) {
    now = { ...now, ...halvedPart(now, memory) };
    const smaller = predict(now);
    if (smaller.peakBytes >= memory.peakBytes) return config;
    memory = smaller;
  }
  return now;
}

/** The largest consumer of a run's memory with its setting halved. */
function halvedPart(
  { maxSlots }: Config,
  { peakPhase, microBatchTokens, kv, evaluationKv }: MemoryPlan,
): Partial<Config> {
  if (peakPhase === 'training' || peakPhase === 'scoring') {
    return { microBatchTokens: Math.max(1, Math.floor(microBatchTokens / 2)) };
  }
  const slots = Math.min(maxSlots ?? Infinity, Math.max(kv?.fullSlots ?? 0, evaluationKv?.fullSlots ?? 0));
  return { maxSlots: Math.max(1, Math.floor(slots / 2)) };
}

/** The first `steps` that together make `asked` fit, with the values they lead to; null: they do not. */
export function stepsToFit<Settings, Memory, One extends Step<Settings, Memory>>(
  asked: Settings,
  steps: readonly One[],
  predict: (settings: Settings) => Memory,
  enough: (memory: Memory) => boolean,
): { step: One; to: Settings[keyof Settings] }[] | null {
  let now = asked;
  let memory = predict(now);
  const taken = new Set<One>();
  for (const step of steps) {
    while (!enough(memory)) {
      const value = step.next(now, memory);
      if (value === null) break;
      now = { ...now, [step.setting]: value };
      memory = predict(now);
      taken.add(step);
    }
  }
  if (!enough(memory)) return null;
  // A later step may have made an earlier one unnecessary.
  return [...taken]
    .filter(({ setting }) => !enough(predict({ ...now, [setting]: asked[setting] })))
    .map((step) => ({ step, to: now[step.setting] }));
}

/** Changes that together make the run fit, or null if none of those tried do. */
export const changesToFit = (
  config: Config,
  availableBytes: number,
  predict: (config: Config) => MemoryPlan,
): Change[] | null =>
  stepsToFit(config, STEPS, predict, (memory) => fits(memory, availableBytes))?.map(
    ({ step: { setting, why }, to }) => ({ setting, from: config[setting], to, why }),
  ) ?? null;

/** The changes as a user makes them. */
export const adviceOf = (changes: readonly { setting: string; to: unknown }[] | null): string =>
  changes === null
    ? 'no setting makes it fit; use a smaller model or a larger device'
    : `try ${changes.map(({ setting, to }) => `--set ${setting}=${String(to)}`).join(' ')}`;

/** The KV cache may be advised to fill at most this fraction of the memory. */
const KV_CEILING = 0.9;

/** Training passes are advised in multiples of this many tokens. */
const PASS_STEP = 512;

/** Smaller training passes, if those keep their activations where the configured ones do not. */
function changeForActivations(
  { microBatchTokens }: Config,
  memory: MemoryPlan,
  device: PlanDevice,
): Change[] {
  const to = Math.floor(memory.keptTokens / PASS_STEP) * PASS_STEP;
  // On a CPU a second forward costs less than the smaller products.
  const helps = device.kind === 'cuda' && to >= microBatchTokens / 2 && to < microBatchTokens;
  if (!helps) return [];
  const why = 'passes that keep their activations, so no layer is computed twice';
  return [{ setting: 'microBatchTokens', from: microBatchTokens, to, why }];
}

/** Changes that speed up a run that fits. */
export function changesForSpeed(config: Config, memory: MemoryPlan, device: PlanDevice): Change[] {
  return [...changeForActivations(config, memory, device), ...changeForSlots(config, memory, device)];
}

function changeForSlots(config: Config, memory: MemoryPlan, device: PlanDevice): Change[] {
  const { kv } = memory;
  if (kv === null) return [];
  const { wantedSlots: wanted } = kv;
  if (
    kv.fullSlots >= wanted ||
    kv.fullBudgetBytes + memory.phaseBytes.always > KV_CEILING * device.freeBytes
  ) {
    return [];
  }
  const why = `room for all ${wanted} sequences at full length instead of ${kv.fullSlots}; the default is ${KV_SHARE_TEXT[device.kind]} of the free memory`;
  return [{ setting: 'kvBytes', from: config.kvBytes, to: kv.fullBudgetBytes, why }];
}
