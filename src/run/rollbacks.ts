/**
 * rollbacks.json lists a run's rollbacks and is the only record of them. A rollback happens when its entry is
 * written, atomically. Its consequences (later checkpoints and lines of metrics are removed) follow, and are
 * repeated from the list after a crash in between.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { badInput } from '../base/errors';
import { removeDirectoryAtomic, writeFileAtomic, writeJsonAtomic } from './atomic';
import type { RunDirectory } from './directory';
import type { StepMetrics } from '../base/types';
import { readMetrics } from './metrics-file';

const step = z.int().min(0);

const ENTRIES = z.array(
  z.object({
    /** Counted from 1. */
    number: z.int().min(0),
    /** Step after which it was triggered, and step of the checkpoint it went to. */
    from: step,
    to: step,
    /** Factor on the efficiency pressure from then on. */
    pressure: z.number().min(0).max(1),
    /** The collapse message, or what was not finite. */
    reason: z.string(),
    /** Whether its consequences have been carried out. */
    done: z.boolean(),
  }),
);

type Entry = z.output<typeof ENTRIES>[number];
export type Rollback = Omit<Entry, 'done'>;

const listOf = (run: RunDirectory) => join(run.path, 'rollbacks.json');

function entriesOf(run: RunDirectory): Entry[] {
  if (!existsSync(listOf(run))) return [];
  const { data } = ENTRIES.safeParse(run.readJson(listOf(run)));
  if (data !== undefined) return data;
  throw badInput(
    `${listOf(run)} is not a list of rollbacks: the file is damaged, so the run's rollbacks are unknown.`,
  );
}

export const readRollbacks = (run: RunDirectory): Rollback[] =>
  entriesOf(run).map(({ done: _done, ...rollback }) => rollback);

/** Where the lines of metrics are that a rollback took back. */
export const discardedFile = (run: RunDirectory, number: number): string =>
  join(run.path, `rolled-back-${number}.jsonl`);

/** The lines of metrics that a rollback took back. */
export const discardedLines = (run: RunDirectory, number: number): StepMetrics[] =>
  readMetrics(discardedFile(run, number));

/**
 * Commits a rollback, which takes effect with this call. The metrics it takes back are kept in
 * `rolled-back-<number>.jsonl`. Safe to repeat.
 */
export function recordRollback(run: RunDirectory, rollback: Rollback): void {
  const lines = readMetrics(run.metrics()).filter((line) => line.step! > rollback.to);
  const text = lines.map((line) => `${JSON.stringify(line)}\n`).join('');
  writeFileAtomic(discardedFile(run, rollback.number), text);
  const before = entriesOf(run).filter(({ number }) => number < rollback.number);
  writeJsonAtomic(listOf(run), [...before, { ...rollback, done: false }]);
}

/** Removes the checkpoints after the one a rollback went to, unless that is already done. */
export function completeRollbacks(run: RunDirectory): void {
  const entries = entriesOf(run);
  const last = entries.at(-1);
  if (last === undefined || last.done) return;
  for (const step of run.checkpointSteps()) {
    if (step > last.to) removeDirectoryAtomic(run.checkpoint(step));
  }
  writeJsonAtomic(listOf(run), [...entries.slice(0, -1), { ...last, done: true }]);
}
