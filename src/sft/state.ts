/** What a checkpoint of a supervised run holds besides tensors, and what a resumed run may change. */
import { z } from 'zod';
import { AcoerError } from '../errors';
import type { StoredCheckpoint } from '../run';
import { NOTHING_LEARNT, type LearntLimits } from '../grpo/memory';
import type { Maker } from '../life/maker';
import type { SftConfig } from './config';
import type { SftIdentity } from './inputs';

export interface SftState {
  /** Updates made. */
  step: number;
  /** Tokens of prompts and completions so far. */
  numTokens: number;
  /** The loss of the first update and of the newest; null before the first. */
  loss: { first: number; last: number } | null;
  memory: LearntLimits;
}

export const START: SftState = { step: 0, numTokens: 0, loss: null, memory: NOTHING_LEARNT };

const count = z.int().min(0);
const fingerprints = z.record(z.string(), z.string());

const STORED = z.looseObject({
  maker: z.looseObject({}),
  sft: z.strictObject({
    step: count,
    numTokens: count,
    loss: z.strictObject({ first: z.number(), last: z.number() }).nullable(),
    memory: z.strictObject({ microBatchTokens: count.nullable(), maxSlots: count.nullable() }),
  }),
  identity: z.strictObject({
    model: fingerprints,
    tokenizer: fingerprints,
    adapter: fingerprints,
    data: fingerprints,
  }),
});

/** @throws BAD_INPUT for a state that no supervised run wrote */
export function storedSft({ path, state }: StoredCheckpoint): {
  sft: SftState;
  identity: SftIdentity;
  maker: Maker;
} {
  const { data, error } = STORED.safeParse(state);
  if (data !== undefined) return { ...data, maker: data.maker as unknown as Maker };
  const { path: place, message } = error.issues[0]!;
  const what = `${place.join('.').slice(0, 100) || 'it'}: ${message.slice(0, 200)}`;
  throw new AcoerError('BAD_INPUT', `${path}/state.json is damaged: ${what}.`);
}

const PARTS: Readonly<Record<keyof SftIdentity, string>> = {
  model: 'The model',
  tokenizer: 'The tokenizer',
  adapter: 'The adapter that training began with',
  data: 'The training data',
};

/** @throws BAD_INPUT naming the part that is not what the checkpoint was made with */
export function checkIdentity(checkpoint: StoredCheckpoint, now: Partial<SftIdentity>): void {
  const { identity: before } = storedSft(checkpoint);
  for (const part of Object.keys(now) as (keyof SftIdentity)[]) {
    const names = [...new Set([...Object.keys(before[part]), ...Object.keys(now[part]!)])];
    const changed = names.filter((name) => before[part][name] !== now[part]![name]);
    if (changed.length === 0) continue;
    throw new AcoerError(
      'BAD_INPUT',
      `${PARTS[part]} has changed since the checkpoint of step ${checkpoint.step} (${changed.join(', ')}); restore it, or start a new run.`,
    );
  }
}

/** Settings that a resumed run may change. */
const CHANGEABLE: readonly (keyof SftConfig)[] = [
  'maxSteps',
  'saveSteps',
  'keepCheckpoints',
  'microBatchTokens',
  'memoryLimitBytes',
  'threads',
  'device',
  'name',
  'tensorboard',
  'csv',
  'sinks',
  'sinkTimeoutMs',
  'watchdogMs',
  'watchdogPhaseMs',
  'onHang',
  'model',
  'adapter',
];

/** One sentence for each change. @throws BAD_CONFIG for one that the steps made so far depend on */
export function allowedChanges(before: SftConfig, after: SftConfig): string[] {
  const names = Object.keys(after) as (keyof SftConfig)[];
  const changed = names.filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
  const shown = (name: keyof SftConfig) =>
    `${name} ${JSON.stringify(before[name])} -> ${JSON.stringify(after[name])}`;
  // An adapter may have moved, but none can come or go.
  const free = (name: keyof SftConfig) =>
    CHANGEABLE.includes(name) &&
    (name !== 'adapter' || (before.adapter === null) === (after.adapter === null));
  const refused = changed.filter((name) => !free(name));
  if (refused.length > 0) {
    throw new AcoerError(
      'BAD_CONFIG',
      `A resumed run cannot change ${refused.map(shown).join(', ')}: the steps made so far depend on it. It can change ${CHANGEABLE.join(', ')}. For other changes start a new run; --adapter goes on from this one's final/.`,
    );
  }
  return changed.map((name) => `changed on resuming: ${shown(name)}`);
}
