/** The beginning of a run under another name, for a fork. */
import { existsSync } from 'node:fs';
import { AcoerError } from '../errors';
import { writeFileAtomic, writeJsonAtomic } from './atomic';
import type { RunDirectory } from './directory';
import { readMetrics } from './metrics-file';

/** Gives `run` the metrics of `source` up to `step`, and a note of where it comes from (fork.json). */
export function copyRunStart(run: RunDirectory, source: RunDirectory, step: number): void {
  writeJsonAtomic(run.fork(), { run: source.path, step });
  const lines = readMetrics(source.metrics()).filter((line) => line.step! <= step);
  writeFileAtomic(run.metrics(), lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
}

/** A fork has a checkpoint from its first moment on; one without was broken off, and would begin at step 0. */
export function refuseBrokenFork(run: RunDirectory): void {
  if (!existsSync(run.fork())) return;
  throw new AcoerError(
    'BAD_INPUT',
    `${run.path} is a fork that ended before its first checkpoint; fork again.`,
  );
}
