/** Dumps of refused steps: checkpoint files from before the step, and step.json with what was found. */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Policy } from '../engine/types';
import { AcoerError } from '../base/errors';
import { makeFolders } from '../base/folders';
import { jsonText, removeDirectoryAtomic } from './atomic';
import {
  checkpointFiles,
  DUMPED as STEP,
  readCheckpointFolder,
  writeCheckpointFolder,
  type CheckpointContent,
  type StoredCheckpoint,
} from './checkpoint';
import { checksumProblem } from './checksums';
import { readJsonFile, type RunDirectory } from './directory';

const DUMP_VERSION = 1;

/** Number of dumps to keep; each is as large as a checkpoint. */
const KEPT_DUMPS = 3;

/** Writes the dump of `step`, replacing an existing one. */
export function saveDump(
  run: RunDirectory,
  step: number,
  policy: Policy,
  content: CheckpointContent,
  record: object,
): Promise<void> {
  makeFolders(run.dumps());
  return writeCheckpointFolder(run.dump(step), policy, content, {
    [STEP]: jsonText({ version: DUMP_VERSION, step, ...record }),
  });
}

/** Removes old dumps except those of `always`. Sorted by time: a rollback leads to lower steps. */
export function pruneDumps(run: RunDirectory, always: readonly number[]): void {
  const writtenMs = (path: string) => statSync(path).mtimeMs;
  const kept = always.map((step) => run.dump(step)).filter((path) => existsSync(path));
  const others = readdirSync(run.dumps())
    .filter((name) => /^step-\d{6,}$/.test(name))
    .map((name) => join(run.dumps(), name))
    .filter((path) => !kept.includes(path))
    .sort((a, b) => writtenMs(b) - writtenMs(a));
  for (const path of others.slice(Math.max(0, KEPT_DUMPS - kept.length))) removeDirectoryAtomic(path);
}

/**
 * Reads a dump. `record` is what was passed to `saveDump`, unchecked.
 * @throws BAD_INPUT if `path` is not a dump or is damaged
 */
export async function openDump(path: string): Promise<{ checkpoint: StoredCheckpoint; record: unknown }> {
  if (!existsSync(join(path, STEP))) {
    throw new AcoerError(
      'BAD_INPUT',
      `${path} is not a dump of a refused step: it has no ${STEP}. A run keeps its dumps in non-finite/.`,
    );
  }
  const problem = await checksumProblem(path, [...checkpointFiles(path), STEP]);
  if (problem !== null) throw new AcoerError('BAD_INPUT', `The dump ${path} is damaged: ${problem.text}.`);
  const record = readJsonFile(join(path, STEP)) as { version?: unknown; step: number };
  if (record.version !== DUMP_VERSION) {
    throw new AcoerError(
      'BAD_INPUT',
      `${join(path, STEP)} has version ${String(record.version)}, but this acoer reads version ${DUMP_VERSION}.`,
    );
  }
  return { checkpoint: readCheckpointFolder(path, record.step), record };
}
