/** A run's state: what state.json of a checkpoint holds, how it is checked and read back, and what a run starts from. */
import { z } from 'zod';
import { currentSettings, type Config } from '../config';
import type { Engine } from '../engine/types';
import { initialMonitorState } from '../monitor';
import {
  type AcceptedChange,
  type StoredCheckpoint,
  type Tensor,
  ACCEPTED_CHANGE,
  checked,
  readRollbacks,
  restorePolicy,
  type RunDirectory,
} from '../run';
import type { StepMetrics } from '../base/types';
import { thisMaker, type Maker } from '../life/identity';
import { type LoopPosition, initialState, type LoopContext } from '../grpo/context';
import type { Best, Evaluation } from '../life/events';
import { type GuardState, easedState } from './guard';
import { stillLearnt } from '../grpo/memory';
import {
  inFlightNumbers,
  inFlightTensors,
  restoreInFlight,
  STORED_IN_FLIGHT,
  type InFlightNumbers,
} from './stored-in-flight';
import { openBatchTensors, restoreOpenBatch, type OpenBatchNumbers } from './open-batch';
import { configHash } from './resume';
import type { TrainOpening } from './opening';

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

/** What a run trusts. null: it cannot be told, because the caller of `train` gave the part itself. */
const IDENTITY = z.object({
  /** config.json and the weights. */
  model: fingerprints,
  tokenizer: fingerprints.nullable(),
  chatTemplate: fingerprints.nullable(),
  /** Empty without `rewardModules`. */
  rewards: fingerprints,
  /** The adapter that training started from; empty without one; missing in checkpoints of versions that had none. */
  adapter: fingerprints.optional(),
  /** Empty without a judge in a file; missing in checkpoints of versions that had none. */
  judge: fingerprints.optional(),
  /** Empty without a sampler in a file; missing in checkpoints of versions that had none. */
  sampler: fingerprints.optional(),
  evalData: fingerprints.nullable(),
});

export type Identity = z.output<typeof IDENTITY>;

const STATE = z.looseObject({
  config: z.looseObject({}),
  datasetSize: count,
  identity: IDENTITY.optional(),
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
  inFlight: STORED_IN_FLIGHT.optional(),
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

/** Everything a run carries from step to step besides weights and optimiser. */
export interface RunState extends LoopPosition {
  base: Evaluation | null;
  /** The newest evaluation of a step; that of the last step is also the run's result. */
  latest: { step: number; evaluation: Evaluation } | null;
  best: Best | null;
  /** The newest step's line if it is not in metrics.jsonl yet because its evaluation was interrupted. */
  pending: StepMetrics | null;
  /** Fingerprint of the training data; null for generated data. */
  data: string | null;
  guard: GuardState;
}

/** What is fixed when a run is opened, and what made it. */
interface Origin {
  config: Config;
  datasetSize: number;
  /** Missing in checkpoints of versions that recorded none. */
  identity?: Identity;
  accepted?: AcceptedChange[];
}

interface StoredState extends Omit<RunState, 'open' | 'inFlight'>, Origin {
  maker: Maker;
  configHash: string;
  batch: OpenBatchNumbers | null;
  /** Absent if there are none. */
  inFlight?: InFlightNumbers;
}

export function storedState(
  { loop, open, inFlight, ...state }: RunState,
  origin: Required<Origin>,
  engine: Engine,
): { state: StoredState; rollouts: Map<string, Tensor> | null } {
  const batch = open && { tokens: open.tokens, metrics: open.metrics, updatesDone: open.updatesDone };
  const about = { maker: thisMaker(engine), configHash: configHash(origin.config), ...origin };
  const going = inFlight.length > 0 ? { inFlight: inFlightNumbers(inFlight) } : {};
  const rollouts = new Map([...(open ? openBatchTensors(open) : []), ...inFlightTensors(inFlight)]);
  return {
    state: { ...about, loop, batch, ...going, ...state },
    rollouts: rollouts.size > 0 ? rollouts : null,
  };
}

/** @throws BAD_INPUT for a state that no run wrote */
export function storedPart({ path, state }: StoredCheckpoint): StoredState {
  checkStoredState(path, state);
  const stored = state as StoredState;
  return { ...stored, config: currentSettings(stored.config) as Config };
}

/** @param config of the run that continues from it */
export function runStateOf(checkpoint: StoredCheckpoint, config: Config): RunState {
  const stored = storedPart(checkpoint);
  const { loop, batch, base, latest, best, pending, data } = stored;
  const open = batch && restoreOpenBatch(batch, checkpoint.rollouts);
  const inFlight = restoreInFlight(stored.inFlight ?? [], checkpoint.rollouts, config.numGenerations);
  // Missing in checkpoints of versions that did not count refused steps.
  const refused = loop.refused ?? 0;
  const own = { ...loop, refused, memory: stillLearnt(loop.memory, stored.config, config) };
  const guard = startsMonitorOver(checkpoint)
    ? { ...stored.guard, monitor: { ...initialMonitorState(), step: loop.step } }
    : stored.guard;
  return { loop: own, open, inFlight, base, latest, best, pending, data, guard };
}

/** Whether the checkpoint comes from a version that did not record what a run trusts. */
export const lacksIdentity = (checkpoint: StoredCheckpoint): boolean =>
  storedPart(checkpoint).identity === undefined;

/** Whether the checkpoint's monitor comes from a version whose state this one cannot continue from. */
export const startsMonitorOver = (checkpoint: StoredCheckpoint): boolean =>
  isEarlierMonitor(storedPart(checkpoint).guard.monitor);

function newState({ rewards, config, dataset }: LoopContext): RunState {
  return {
    loop: initialState(rewards, config.maxCompletionLength),
    open: null,
    inFlight: [],
    base: null,
    latest: null,
    best: null,
    pending: null,
    data: dataset.source?.fingerprint ?? null,
    guard: { monitor: initialMonitorState(), healthy: null, collapse: null },
  };
}

/** The state that an opened run starts from; loads its weights into the policy of `context`. */
export async function startState(
  { directory, checkpoint, fork }: TrainOpening,
  context: LoopContext,
): Promise<RunState> {
  if (checkpoint === null) return newState(context);
  if (fork === undefined) return restoreRun(directory, checkpoint, context);
  return forkState(checkpoint, fork, context);
}

/**
 * The state of a checkpoint, with any rollback decided since it was written; loads its weights into the
 * policy of `context`. What was sampled before a rollback is not trained on after it.
 */
export async function restoreRun(
  directory: RunDirectory,
  checkpoint: StoredCheckpoint,
  context: LoopContext,
): Promise<RunState> {
  await restorePolicy(checkpoint, context.policy);
  const state = runStateOf(checkpoint, context.config);
  const { loop } = state;
  const last = readRollbacks(directory).at(-1);
  if (last === undefined || last.number <= loop.eased.rollbacks) return state;
  const eased = easedState(loop, last, context.rewards);
  return { ...state, loop: eased, open: null, inFlight: [], guard: { ...state.guard, collapse: null } };
}

/**
 * The state a fork starts from: the checkpoint's, with a new state for rewards that it does not know, and
 * without the evaluations of other data.
 */
async function forkState(
  checkpoint: StoredCheckpoint,
  { keepOpen, otherEvalData }: NonNullable<TrainOpening['fork']>,
  context: LoopContext,
): Promise<RunState> {
  await restorePolicy(checkpoint, context.policy);
  const state = runStateOf(checkpoint, context.config);
  const fresh = newState(context);
  const { loop, open, inFlight } = state;
  const initial = fresh.loop.rewardStates;
  const known = Object.entries(loop.rewardStates).filter(([name]) => name in initial);
  const rewardStates = { ...initial, ...Object.fromEntries(known) };
  const { base, latest, best } = otherEvalData ? fresh : state;
  return {
    ...state,
    ...{ base, latest, best },
    loop: { ...loop, rewardStates },
    open: keepOpen ? open : null,
    inFlight: keepOpen ? inFlight : [],
    data: fresh.data,
    guard: { ...state.guard, healthy: null, collapse: null },
  };
}
