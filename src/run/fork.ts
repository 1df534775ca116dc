/** The beginning of a run under another name, for a fork. */
import { join } from 'node:path';
import { writeFileAtomic, writeJsonAtomic } from './atomic';
import type { RunDirectory } from './directory';
import { readMetrics } from './metrics-file';

/** Gives `run` the metrics of `source` up to `step`, and a note of where it comes from (fork.json). */
export function copyRunStart(run: RunDirectory, source: RunDirectory, step: number): void {
  const lines = readMetrics(source.metrics()).filter((line) => line.step! <= step);
  writeFileAtomic(run.metrics(), lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  writeJsonAtomic(join(run.path, 'fork.json'), { run: source.path, step });
}
