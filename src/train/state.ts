/** What a checkpoint's state.json holds, and how it is read back. */
import { currentSettings, type Config } from '../config';
import type { Engine } from '../engine/types';
import { initialMonitorState } from '../monitor';
import type { AcceptedChange, StoredCheckpoint, Tensor } from '../run';
import type { StepMetrics } from '../base/types';
import { thisMaker, type Maker } from '../life/maker';
import type { LoopPosition } from '../grpo/context';
import type { Best, Evaluation } from '../life/events';
import type { GuardState } from './guard';
import type { Identity } from './identity';
import { stillLearnt } from '../grpo/memory';
import { openBatchTensors, restoreOpenBatch, type OpenBatchNumbers } from './open-batch';
import { configHash } from './resume';
import { checkStoredState, isEarlierMonitor } from './stored-state';

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

interface StoredState extends Omit<RunState, 'open'>, Origin {
  maker: Maker;
  configHash: string;
  batch: OpenBatchNumbers | null;
}

export function storedState(
  { loop, open, ...state }: RunState,
  origin: Required<Origin>,
  engine: Engine,
): { state: StoredState; rollouts: Map<string, Tensor> | null } {
  const batch = open && { tokens: open.tokens, metrics: open.metrics, updatesDone: open.updatesDone };
  const about = { maker: thisMaker(engine), configHash: configHash(origin.config), ...origin };
  return { state: { ...about, loop, batch, ...state }, rollouts: open && openBatchTensors(open) };
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
  // Missing in checkpoints of versions that did not count refused steps.
  const refused = loop.refused ?? 0;
  const own = { ...loop, refused, memory: stillLearnt(loop.memory, stored.config, config) };
  const guard = startsMonitorOver(checkpoint)
    ? { ...stored.guard, monitor: { ...initialMonitorState(), step: loop.step } }
    : stored.guard;
  return { loop: own, open, base, latest, best, pending, data, guard };
}

/** Whether the checkpoint comes from a version that did not record what a run trusts. */
export const lacksIdentity = (checkpoint: StoredCheckpoint): boolean =>
  storedPart(checkpoint).identity === undefined;

/** Whether the checkpoint's monitor comes from a version whose state this one cannot continue from. */
export const startsMonitorOver = (checkpoint: StoredCheckpoint): boolean =>
  isEarlierMonitor(storedPart(checkpoint).guard.monitor);
