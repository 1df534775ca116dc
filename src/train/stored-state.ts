/** Checks a checkpoint's state.json before a run continues from it. */
import { z } from 'zod';
import { ACCEPTED_CHANGE, checked } from '../run';

const count = z.int().min(0);
/** JSON holds null for numbers that are not finite. */
const number = z.number().nullable();
const numbers = z.record(z.string(), number);
const averages = z.record(z.string(), z.looseObject({ sum: z.number(), weight: z.number() }));
const evaluation = z.looseObject({
  greedy: z.looseObject({}).nullable(),
  sampled: z.looseObject({}).nullable(),
});

const shares = z.array(z.number());

const monitor = z.looseObject({
  health: z.enum(['healthy', 'warning', 'collapsed']),
  averages: z.looseObject({
    groups: count,
    moving: averages,
    base: averages,
    highest: numbers,
    lowest: numbers,
  }),
  accuracy: z.looseObject({
    groups: count,
    history: z.array(shares.min(1)),
    noise: z.looseObject({
      last: z.looseObject({ groups: count, shares }).nullable(),
      level: shares,
      levelWeight: z.number(),
      seen: shares,
      implied: shares,
      possible: shares,
      pairs: z.number(),
      completions: count.nullable(),
    }),
  }),
  evaluations: z.looseObject({
    best: z.looseObject({ step: count, accuracy: z.number() }).nullable(),
    low: count,
    collapse: z.string().nullable(),
  }),
  collapseSteps: count,
  warningSteps: count,
  calmSteps: count,
  step: count,
  tokens: z.number().nullable(),
});

const MONITORED = z.looseObject({ guard: z.looseObject({ monitor }) });

/** As earlier versions wrote it: without a history of accuracy. */
const earlierMonitor = z.looseObject({
  averages: z.looseObject({ batches: count }),
  accuracy: z.undefined().optional(),
});

const fingerprints = z.record(z.string(), z.string());

const STATE = z.looseObject({
  config: z.looseObject({}),
  datasetSize: count,
  identity: z
    .looseObject({
      model: fingerprints,
      tokenizer: fingerprints.nullable(),
      chatTemplate: fingerprints.nullable(),
      rewards: fingerprints,
      adapter: fingerprints.optional(),
      judge: fingerprints.optional(),
      sampler: fingerprints.optional(),
      evalData: fingerprints.nullable(),
    })
    .optional(),
  accepted: z.array(ACCEPTED_CHANGE).optional(),
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
  guard: z.looseObject({
    monitor: z.looseObject({}),
    healthy: count.nullable(),
    collapse: z.string().nullable(),
  }),
});

/** @param path of the checkpoint @throws BAD_INPUT naming the first entry that is wrong */
export function checkStoredState(path: string, state: unknown): void {
  const file = `${path}/state.json`;
  const { guard } = checked(STATE, file, state);
  if (!isEarlierMonitor(guard.monitor)) checked(MONITORED, file, state);
}

/** Whether a stored monitor comes from a version whose numbers this one cannot use. */
export const isEarlierMonitor = (stored: unknown) => earlierMonitor.safeParse(stored).success;
