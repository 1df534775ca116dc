/** Starts a fork: copies the beginning of a run into another one. */
import { existsSync } from 'node:fs';
import { AcoerError } from '../errors';
import { writeFileAtomic, writeJsonAtomic } from './atomic';
import type { RunDirectory } from './directory';
import { readMetrics } from './metrics-file';

/** Copies the metrics of `source` up to `step` into `run`, and records the origin in fork.json. */
export function copyRunStart(run: RunDirectory, source: RunDirectory, step: number): void {
  writeJsonAtomic(run.fork(), { run: source.path, step });
  const lines = readMetrics(source.metrics()).filter((line) => line.step! <= step);
  writeFileAtomic(run.metrics(), lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
}

/** A fork gets a checkpoint right away; one without was interrupted, and would start at step 0. */
export function refuseBrokenFork(run: RunDirectory): void {
  if (!existsSync(run.fork())) return;
  throw new AcoerError(
    'BAD_INPUT',
    `${run.path} is a fork that ended before its first checkpoint; fork again.`,
  );
}
