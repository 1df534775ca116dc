/** Checkpoints: a folder that exists is whole, and its checksums say so. */
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Policy } from '../engine/types';
import { AcoerError } from '../errors';
import { removeDirectoryAtomic, writeDirectoryAtomic } from './atomic';
import { checksumProblem, writeChecksums } from './checksums';
import { readJsonFile, stepName, type RunDirectory } from './directory';
import { decodeSafetensors, encodeSafetensors, type Tensor } from './safetensors';

const ADAPTER = 'adapter_model.safetensors';
const ADAPTER_CONFIG = 'adapter_config.json';
const OPTIMIZER = 'optimizer.safetensors';
const ROLLOUTS = 'rollouts.safetensors';
const STATE = 'state.json';
const STATE_VERSION = 2;

export interface CheckpointContent {
  adapterConfig: unknown;
  /** Plain JSON: everything besides tensors that the next step depends on. */
  state: object;
  /** Of a generated batch with updates left to make; null between two batches. */
  rollouts: ReadonlyMap<string, Tensor> | null;
}

/** The files a folder needs to count as whole. */
export const CHECKPOINT_FILES = [ADAPTER, OPTIMIZER, STATE] as const;

export interface StoredCheckpoint {
  step: number;
  path: string;
  state: unknown;
  rollouts: Map<string, Tensor> | null;
}

const writeJson = (path: string, value: unknown) =>
  writeFileSync(path, `${JSON.stringify(value, null, 2)}\n`);

/** Writes an adapter as PEFT lays it out into a folder that is being filled. */
export async function writeAdapter(directory: string, policy: Policy, adapterConfig: unknown): Promise<void> {
  await policy.save(join(directory, ADAPTER));
  writeJson(join(directory, ADAPTER_CONFIG), adapterConfig);
}

/** Writes the checkpoint of `step`, in place of one that is there. */
export function saveCheckpoint(
  run: RunDirectory,
  step: number,
  policy: Policy,
  content: CheckpointContent,
): Promise<void> {
  return writeCheckpointFolder(run.checkpoint(step), policy, content);
}

/** Writes a folder of a checkpoint's files, and `more` JSON files by their names; it appears when it is whole. */
export function writeCheckpointFolder(
  path: string,
  policy: Policy,
  { adapterConfig, state, rollouts }: CheckpointContent,
  more: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  return writeDirectoryAtomic(path, async (directory) => {
    await writeAdapter(directory, policy, adapterConfig);
    await policy.saveOptimizer(join(directory, OPTIMIZER));
    writeJson(join(directory, STATE), { version: STATE_VERSION, ...state });
    if (rollouts !== null) writeFileSync(join(directory, ROLLOUTS), encodeSafetensors(rollouts));
    for (const [name, value] of Object.entries(more)) writeJson(join(directory, name), value);
    writeChecksums(directory);
  });
}

/**
 * Removes the oldest checkpoints above `last` (null: none) but those of the steps `always`. The one of step 0 stands in
 * until there is another.
 */
export function pruneCheckpoints(run: RunDirectory, last: number | null, always: readonly number[]): void {
  const steps = run.checkpointSteps();
  const old = last === null ? [] : steps.slice(0, -last);
  const initial = steps.length > 1 ? steps.filter((step) => step === 0) : [];
  for (const step of new Set([...old, ...initial])) {
    if (!always.includes(step)) removeDirectoryAtomic(run.checkpoint(step));
  }
}

/** Out of the way of checkpoints to come, but there for whoever wants to know what happened to it. */
function setAside(run: RunDirectory, step: number): string {
  const aside = join(run.checkpoints(), `damaged-${stepName(step)}`);
  rmSync(aside, { recursive: true, force: true });
  renameSync(run.checkpoint(step), aside);
  return aside;
}

/**
 * The newest checkpoint that is whole, or null when there is none. A damaged one is set aside.
 * @param warn told of every damaged one
 */
export function findCheckpoint(run: RunDirectory, warn: (message: string) => void): StoredCheckpoint | null {
  for (const step of run.checkpointSteps().reverse()) {
    const path = run.checkpoint(step);
    const problem = checksumProblem(path, CHECKPOINT_FILES);
    if (problem === null) return readCheckpointFolder(path, step);
    const before = run
      .checkpointSteps()
      .filter((other) => other < step)
      .at(-1);
    const next = before === undefined ? 'there is none before it' : `trying the one of step ${before}`;
    warn(
      `The checkpoint of step ${step} is damaged (${problem}); it is now ${setAside(run, step)}; ${next}.`,
    );
  }
  return null;
}

/** The checkpoint of `step` of a run that is only read. @throws BAD_INPUT when it is damaged */
export function openCheckpoint(run: RunDirectory, step: number): StoredCheckpoint {
  const path = run.checkpoint(step);
  const problem = checksumProblem(path, CHECKPOINT_FILES);
  if (problem === null) return readCheckpointFolder(path, step);
  throw new AcoerError('BAD_INPUT', `${path} is damaged (${problem}); name another step.`);
}

/** The checkpoint in a folder whose checksums are right. */
export function readCheckpointFolder(path: string, step: number): StoredCheckpoint {
  const state = readJsonFile(join(path, STATE)) as { version?: unknown } | null;
  if (state?.version !== STATE_VERSION) {
    const version = typeof state?.version === 'number' ? `version ${state.version}` : 'no version';
    throw new AcoerError(
      'BAD_INPUT',
      `${join(path, STATE)} has ${version}; this acoer reads version ${STATE_VERSION}.`,
    );
  }
  const rollouts = join(path, ROLLOUTS);
  return {
    step,
    path,
    state,
    rollouts: existsSync(rollouts) ? decodeSafetensors(readFileSync(rollouts), rollouts) : null,
  };
}

/** Brings a fresh policy to where the checkpoint left it. */
export async function restorePolicy({ path }: StoredCheckpoint, policy: Policy): Promise<void> {
  await policy.restore(join(path, ADAPTER));
  await policy.restoreOptimizer(join(path, OPTIMIZER));
}
