/** What a checkpoint of a supervised run holds besides tensors, and what a resumed run may change. */
import { z } from 'zod';
import { badInput } from '../base/errors';
import type { StepMetrics } from '../base/types';
import { NOTHING_LEARNT } from '../grpo/memory';
import { COMMON_EFFECTS, type Changeable } from '../life/changes';
import { changed, type Maker } from '../life/identity';
import { checked, type StoredCheckpoint } from '../run';
import type { SftConfig } from './config';

const count = z.int().min(0);
const fingerprints = z.record(z.string(), z.string());
const evaluation = z.strictObject({ loss: z.number(), entropy: z.number() });

const SFT_STATE = z.strictObject({
  /** Updates made. */
  step: count,
  /** Tokens of prompts and completions so far. */
  numTokens: count,
  /** The loss of the first update and of the newest; null before the first. */
  loss: z.strictObject({ first: z.number(), last: z.number() }).nullable(),
  memory: z.strictObject({ microBatchTokens: count.nullable(), maxSlots: count.nullable() }),
  /**
   * On held-out examples: before the first update, the newest, and the lowest loss so far. Missing in checkpoints of
   * versions that evaluated nothing.
   */
  base: evaluation.nullable().default(null),
  latest: evaluation.extend({ step: count }).nullable().default(null),
  best: z.strictObject({ step: count, loss: z.number() }).nullable().default(null),
  /** The newest step's line while an interrupted evaluation keeps it out of metrics.jsonl; null: not finite, in JSON. */
  pending: z
    .record(
      z.string(),
      z
        .number()
        .nullable()
        .transform((value) => value ?? NaN),
    )
    .nullable()
    .default(null),
});

export type SftState = Omit<z.output<typeof SFT_STATE>, 'pending'> & { pending: StepMetrics | null };

/** The state before the first update. */
export const initialSftState = (): SftState =>
  SFT_STATE.parse({ step: 0, numTokens: 0, loss: null, memory: NOTHING_LEARNT });

const STORED = z.looseObject({
  maker: z.looseObject({}).transform((maker) => maker as unknown as Maker),
  sft: SFT_STATE,
  identity: z.strictObject({
    model: fingerprints,
    tokenizer: fingerprints,
    adapter: fingerprints,
    data: fingerprints,
  }),
});

/** What a run trusts to stay the same, by what it is; the model's part is added when it is loaded. */
export type SftIdentity = z.output<typeof STORED>['identity'];

/** @throws BAD_INPUT for a state that no supervised run wrote */
export const storedSft = ({ path, state }: StoredCheckpoint) => checked(STORED, `${path}/state.json`, state);

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
    const names = changed(before[part], now[part]!);
    if (names.length === 0) continue;
    throw badInput(
      `${PARTS[part]} has changed since the checkpoint of step ${checkpoint.step} (${names.join(', ')}); restore it, or start a new run.`,
    );
  }
}

export const CHANGEABLE: Changeable<SftConfig> = {
  effects: COMMON_EFFECTS,
  isFile: { adapter: ({ adapter }) => adapter !== null },
  otherwise: () => "start a new run; --adapter continues from this one's final/.",
};
