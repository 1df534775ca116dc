/** Which settings to change, and to what, so that a run fits. */
import type { Config } from '../config';
import type { Quantization } from '../engine/types';
import { fitsNf4, type ModelShape } from './cost';
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

export const KV_PRICE =
  "about half the bytes of the cache; sampled log-probs are further from the trainer's, which is corrected for";
export const QUANTISATION_PRICE =
  "the base's linear layers in fewer bits; rounding makes it a slightly different model";

/** int8 first, which rounds less. */
export const quantised =
  (shape: ModelShape) =>
  ({ full, quantization }: Pick<Config, 'full' | 'quantization'>): Quantization | null => {
    if (full || quantization === 'nf4') return null;
    if (quantization === null) return 'int8';
    return fitsNf4(shape) ? 'nf4' : null;
  };

/** In order of preference: settings that change only speed, then precision, then the run itself. */
const stepsFor = (shape: ModelShape): (Step<Config, MemoryPlan> & { why: string })[] => [
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
    setting: 'kvCacheDtype',
    next: ({ kvCacheDtype }, { kv, evaluationKv, peakPhase }) =>
      kvCacheDtype === 'auto' &&
      (kv?.slots === 0 || evaluationKv?.slots === 0 || ['rollout', 'evaluation'].includes(peakPhase))
        ? 'int8'
        : null,
    why: KV_PRICE,
  },
  {
    setting: 'quantization',
    next: quantised(shape),
    why: QUANTISATION_PRICE,
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
  shape: ModelShape,
): Change[] | null =>
  stepsToFit(config, stepsFor(shape), predict, (memory) => fits(memory, availableBytes))?.map(
    ({ step: { setting, why }, to }) => ({ setting, from: config[setting], to, why }),
  ) ?? null;

/** The changes as a user makes them. */
export const adviceOf = (changes: readonly { setting: string; to: unknown }[] | null): string =>
  changes === null
    ? 'no setting makes it fit; use a smaller model or a larger device'
    : `try ${changes.map(({ setting, to }) => `--set ${setting}=${String(to)}`).join(' ')}`;
