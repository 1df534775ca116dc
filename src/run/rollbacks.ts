/**
 * rollbacks.json lists a run's rollbacks and is the only record of them. A rollback happens when its entry is
 * written, atomically. Its consequences (later checkpoints and lines of metrics are removed) follow, and are
 * repeated from the list after a crash in between.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { AcoerError } from '../base/errors';
import { removeDirectoryAtomic, writeFileAtomic, writeJsonAtomic } from './atomic';
import type { RunDirectory } from './directory';
import type { StepMetrics } from '../base/types';
import { readMetrics } from './metrics-file';

export interface Rollback {
  /** Counted from 1. */
  number: number;
  /** Step after which it was triggered, and step of the checkpoint it went to. */
  from: number;
  to: number;
  /** Factor on the efficiency pressure from then on. */
  pressure: number;
  /** The collapse message, or what was not finite. */
  reason: string;
}

interface Entry extends Rollback {
  /** Whether its consequences have been carried out. */
  done: boolean;
}

const listOf = (run: RunDirectory) => join(run.path, 'rollbacks.json');

function isEntry(value: unknown): value is Entry {
  if (typeof value !== 'object' || value === null) return false;
  const { number, from, to, pressure, reason, done } = value as Partial<Entry>;
  const steps = [number, from, to].every((step) => Number.isSafeInteger(step) && step! >= 0);
  const eased = typeof pressure === 'number' && pressure >= 0 && pressure <= 1;
  return steps && eased && typeof reason === 'string' && typeof done === 'boolean';
}

function entriesOf(run: RunDirectory): Entry[] {
  if (!existsSync(listOf(run))) return [];
  const entries = run.readJson(listOf(run));
  if (Array.isArray(entries) && entries.every(isEntry)) {
    return entries.map(({ number, from, to, pressure, reason, done }) => {
      return { number, from, to, pressure, reason, done };
    });
  }
  throw new AcoerError(
    'BAD_INPUT',
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
