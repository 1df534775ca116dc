/** Checkpoints: a folder that exists is complete, which its checksums confirm. */
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Policy } from '../engine/types';
import { AcoerError } from '../errors';
import { jsonText, removeDirectoryAtomic, writeDirectoryAtomic } from './atomic';
import { checksumProblem, writeChecksums } from './checksums';
import { METRICS_FILE, readJsonFile, stepName, type RunDirectory } from './directory';
import { linesSince } from './metrics-file';
import { decodeSafetensors, encodeSafetensors, type Tensor } from './safetensors';

const ADAPTER = 'adapter_model.safetensors';
const ADAPTER_CONFIG = 'adapter_config.json';
const OPTIMIZER = 'optimizer.safetensors';
const ROLLOUTS = 'rollouts.safetensors';
export const STATE = 'state.json';
const STATE_VERSION = 2;

export interface CheckpointContent {
  adapterConfig: unknown;
  /** Plain JSON with everything besides tensors that the next step depends on. */
  state: object;
  /** The generated batch if it has updates left; null between two batches. */
  rollouts: ReadonlyMap<string, Tensor> | null;
}

/** The files a complete folder must have. */
export const CHECKPOINT_FILES = [ADAPTER, OPTIMIZER, STATE] as const;

export interface StoredCheckpoint {
  step: number;
  path: string;
  state: unknown;
  rollouts: Map<string, Tensor> | null;
}

const writeJson = (path: string, value: unknown) => writeFileSync(path, jsonText(value));

/** Writes an adapter in PEFT's layout into a folder that is being filled. */
export async function writeAdapter(directory: string, policy: Policy, adapterConfig: unknown): Promise<void> {
  await policy.save(join(directory, ADAPTER));
  writeJson(join(directory, ADAPTER_CONFIG), adapterConfig);
}

/**
 * Writes the checkpoint of `step`, replacing an existing one. It holds the lines of metrics.jsonl since the
 * checkpoint before it; the line of that one's step may have come later.
 */
export function saveCheckpoint(
  run: RunDirectory,
  step: number,
  policy: Policy,
  content: CheckpointContent,
): Promise<void> {
  const before = run.checkpointSteps().findLast((other) => other < step) ?? 0;
  const lines = linesSince(run.metrics(), before);
  const more: Record<string, string> = lines === '' ? {} : { [METRICS_FILE]: lines };
  return writeCheckpointFolder(run.checkpoint(step), policy, content, more);
}

/** Writes a folder with a checkpoint's files and `more` by name; it appears once complete. */
export function writeCheckpointFolder(
  path: string,
  policy: Policy,
  { adapterConfig, state, rollouts }: CheckpointContent,
  more: Readonly<Record<string, string>> = {},
): Promise<void> {
  return writeDirectoryAtomic(path, async (directory) => {
    await writeAdapter(directory, policy, adapterConfig);
    await policy.saveOptimizer(join(directory, OPTIMIZER));
    writeJson(join(directory, STATE), { version: STATE_VERSION, ...state });
    if (rollouts !== null) writeFileSync(join(directory, ROLLOUTS), encodeSafetensors(rollouts));
    for (const [name, text] of Object.entries(more)) writeFileSync(join(directory, name), text);
    writeChecksums(directory);
  });
}

/**
 * Removes the oldest checkpoints beyond the newest `last` (null: keeps all), except those of the steps
 * `always`. The one of step 0 is kept until there is another.
 */
export function pruneCheckpoints(run: RunDirectory, last: number | null, always: readonly number[]): void {
  const steps = run.checkpointSteps();
  const old = last === null ? [] : steps.slice(0, -last);
  const initial = steps.length > 1 ? steps.filter((step) => step === 0) : [];
  for (const step of new Set([...old, ...initial])) {
    if (!always.includes(step)) removeDirectoryAtomic(run.checkpoint(step));
  }
}

/** Renames a damaged checkpoint out of the way of later ones, but keeps it for inspection. */
function setAside(run: RunDirectory, step: number): string {
  const aside = join(run.checkpoints(), `damaged-${stepName(step)}`);
  rmSync(aside, { recursive: true, force: true });
  renameSync(run.checkpoint(step), aside);
  return aside;
}

/**
 * The newest complete checkpoint, or null if there is none. Damaged ones are set aside.
 * @param warn called for every damaged one
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
    const next = before === undefined ? 'there is no earlier one' : `trying the one of step ${before}`;
    warn(
      `The checkpoint of step ${step} is damaged (${problem}) and was moved to ${setAside(run, step)}; ${next}.`,
    );
  }
  return null;
}

/** The checkpoint of `step` in a run opened for reading. @throws BAD_INPUT if it is damaged */
export function openCheckpoint(run: RunDirectory, step: number): StoredCheckpoint {
  const path = run.checkpoint(step);
  const problem = checksumProblem(path, CHECKPOINT_FILES);
  if (problem === null) return readCheckpointFolder(path, step);
  throw new AcoerError('BAD_INPUT', `${path} is damaged (${problem}); choose another step.`);
}

/** Reads the checkpoint in a folder whose checksums have been verified. */
export function readCheckpointFolder(path: string, step: number): StoredCheckpoint {
  const state = readJsonFile(join(path, STATE)) as { version?: unknown } | null;
  if (state?.version !== STATE_VERSION) {
    const version = typeof state?.version === 'number' ? `version ${state.version}` : 'no version';
    throw new AcoerError(
      'BAD_INPUT',
      `${join(path, STATE)} has ${version}, but this acoer reads version ${STATE_VERSION}.`,
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

/** Restores a fresh policy to the state in the checkpoint. */
export async function restorePolicy({ path }: StoredCheckpoint, policy: Policy): Promise<void> {
  await policy.restore(join(path, ADAPTER));
  await policy.restoreOptimizer(join(path, OPTIMIZER));
}
