/** Starts a fork: copies the beginning of a run into another one. */
import { existsSync } from 'node:fs';
import { badInput } from '../base/errors';
import { writeFileAtomic, writeJsonAtomic } from './atomic';
import type { RunDirectory } from './directory';
import { recoverLines } from './metrics-file';

/**
 * Copies the metrics of `source` up to `step` into `run`, and records the origin in fork.json.
 * @param warn gets a sentence about lines that `source` has lost
 */
export async function copyRunStart(
  run: RunDirectory,
  source: RunDirectory,
  step: number,
  warn: (message: string) => void,
): Promise<void> {
  writeJsonAtomic(run.fork(), { run: source.path, step });
  const lines = await recoverLines(source.metrics(), step, source.savedMetrics(), warn);
  writeFileAtomic(run.metrics(), lines);
}

/** A fork gets a checkpoint right away; one without was interrupted, and would start at step 0. */
export function refuseBrokenFork(run: RunDirectory): void {
  if (!existsSync(run.fork())) return;
  throw badInput(`${run.path} is a fork that ended before its first checkpoint; fork again.`);
}
