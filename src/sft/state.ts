/** What a checkpoint of a supervised run holds besides tensors, and what a resumed run may change. */
import { z } from 'zod';
import { AcoerError } from '../base/errors';
import type { StoredCheckpoint } from '../run';
import { NOTHING_LEARNT, type LearntLimits } from '../grpo/memory';
import type { Changeable } from '../life/changes';
import type { SftEvaluation } from '../life/events';
import type { Maker } from '../life/maker';
import type { StepMetrics } from '../base/types';
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
  /** On held-out examples: before the first update, the newest, and the lowest loss so far. */
  base: SftEvaluation | null;
  latest: ({ step: number } & SftEvaluation) | null;
  best: { step: number; loss: number } | null;
  /** The newest step's line if it is not in metrics.jsonl yet because its evaluation was interrupted. */
  pending: StepMetrics | null;
}

/** The state before the first update. */
export const initialSftState = (): SftState => ({
  step: 0,
  numTokens: 0,
  loss: null,
  memory: NOTHING_LEARNT,
  base: null,
  latest: null,
  best: null,
  pending: null,
});

const count = z.int().min(0);
const fingerprints = z.record(z.string(), z.string());
const evaluation = z.strictObject({ loss: z.number(), entropy: z.number() });
/** JSON holds null for numbers that are not finite. */
const line = z.record(
  z.string(),
  z
    .number()
    .nullable()
    .transform((value) => value ?? NaN),
);

const STORED = z.looseObject({
  maker: z.looseObject({}),
  sft: z.strictObject({
    step: count,
    numTokens: count,
    loss: z.strictObject({ first: z.number(), last: z.number() }).nullable(),
    memory: z.strictObject({ microBatchTokens: count.nullable(), maxSlots: count.nullable() }),
    // Missing in checkpoints of versions that evaluated nothing.
    base: evaluation.nullable().default(null),
    latest: evaluation.extend({ step: count }).nullable().default(null),
    best: z.strictObject({ step: count, loss: z.number() }).nullable().default(null),
    pending: line.nullable().default(null),
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

export const CHANGEABLE: Changeable<SftConfig> = {
  effects: {
    maxSteps: 'schedule',
    saveSteps: 'nothing',
    keepCheckpoints: 'nothing',
    evalSteps: 'nothing',
    name: 'nothing',
    tensorboard: 'nothing',
    csv: 'nothing',
    sinks: 'nothing',
    sinkTimeoutMs: 'nothing',
    watchdogMs: 'nothing',
    watchdogPhaseMs: 'nothing',
    onHang: 'nothing',
    microBatchTokens: 'rounding',
    memoryLimitBytes: 'rounding',
    threads: 'rounding',
    device: 'rounding',
    model: 'place',
    adapter: 'place',
  },
  isFile: { adapter: ({ adapter }) => adapter !== null },
  otherwise: () => "start a new run; --adapter continues from this one's final/.",
};
