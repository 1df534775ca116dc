/** What must hold of a checkpoint's state.json before a step is made from it. */
import { z } from 'zod';
import { AcoerError } from '../errors';

const count = z.int().min(0);
/** JSON has null for what is not finite. */
const number = z.number().nullable();
const numbers = z.record(z.string(), number);
const averages = z.record(z.string(), z.looseObject({ sum: z.number(), weight: z.number() }));
const evaluation = z.looseObject({
  greedy: z.looseObject({}).nullable(),
  sampled: z.looseObject({}).nullable(),
});

const monitor = z.looseObject({
  health: z.enum(['healthy', 'warning', 'collapsed']),
  averages: z.looseObject({
    batches: count,
    moving: averages,
    base: averages,
    highest: numbers,
    lowest: numbers,
  }),
  collapseSteps: count,
  warningSteps: count,
  calmSteps: count,
  step: count,
});

const STATE = z.looseObject({
  config: z.looseObject({}),
  datasetSize: count,
  loop: z.looseObject({
    step: count,
    cursor: count,
    numTokens: count,
    rewardStates: z.record(z.string(), z.unknown()),
    eased: z.looseObject({ rollbacks: count, pressure: z.number().min(0).max(1) }),
    refused: count.optional(),
    memory: z.looseObject({ microBatchTokens: count.nullable(), maxSlots: count.nullable() }).optional(),
  }),
  batch: z.looseObject({ tokens: count, metrics: numbers, updatesDone: count }).nullable(),
  base: evaluation.nullable(),
  latest: z.looseObject({ step: count, evaluation }).nullable(),
  best: z.looseObject({ step: count, accuracy: z.number(), thinkingTokens: number }).nullable(),
  pending: numbers.nullable(),
  data: z.string().nullable(),
  guard: z.looseObject({ monitor, healthy: count.nullable(), collapse: z.string().nullable() }),
});

/** @param path of the checkpoint @throws BAD_INPUT naming the first entry that is wrong */
export function checkStoredState(path: string, state: unknown): void {
  const { error } = STATE.safeParse(state);
  if (error === undefined) return;
  const { path: place, message } = error.issues[0]!;
  throw new AcoerError(
    'BAD_INPUT',
    `${path}/state.json is damaged: ${place.join('.').slice(0, 100) || 'it'}: ${message.slice(0, 200)}.`,
  );
}
