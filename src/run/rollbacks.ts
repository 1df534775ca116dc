/**
 * rollbacks.json: the rollbacks of a run, the one place that says they happened. A rollback is this list's new entry,
 * written atomically; what follows from it (later checkpoints and lines of metrics go away) is done after that, and done
 * again from the list when a crash came between.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { AcoerError } from '../errors';
import { removeDirectoryAtomic, writeFileAtomic, writeJsonAtomic } from './atomic';
import type { RunDirectory } from './directory';
import { readMetrics } from './metrics-file';

export interface Rollback {
  /** From 1. */
  number: number;
  /** Step whose end brought it, and the step of the checkpoint gone back to. */
  from: number;
  to: number;
  /** Factor on the efficiency pressure from here on. */
  pressure: number;
  /** The sentence of the collapse, or what was not finite. */
  reason: string;
}

interface Entry extends Rollback {
  /** What follows from it was done. */
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
  if (Array.isArray(entries) && entries.every(isEntry)) return entries;
  throw new AcoerError(
    'BAD_INPUT',
    `${listOf(run)} is no list of rollbacks: the file is damaged, and what the run went back to is not known.`,
  );
}

/** In order. */
export const readRollbacks = (run: RunDirectory): Rollback[] =>
  entriesOf(run).map(({ number, from, to, pressure, reason }) => ({ number, from, to, pressure, reason }));

/**
 * Decides a rollback: from here on it has happened. The lines it takes back are kept in `rolled-back-<number>.jsonl`.
 * Harmless to repeat.
 */
export function recordRollback(run: RunDirectory, rollback: Rollback): void {
  const lines = readMetrics(run.metrics()).filter((line) => line.step! > rollback.to);
  const text = lines.map((line) => `${JSON.stringify(line)}\n`).join('');
  writeFileAtomic(join(run.path, `rolled-back-${rollback.number}.jsonl`), text);
  const before = entriesOf(run).filter(({ number }) => number < rollback.number);
  writeJsonAtomic(listOf(run), [...before, { ...rollback, done: false }]);
}

/** Removes the checkpoints a rollback went back behind, unless that is done already. */
export function completeRollbacks(run: RunDirectory): void {
  const entries = entriesOf(run);
  const last = entries.at(-1);
  if (last === undefined || last.done) return;
  for (const step of run.checkpointSteps()) {
    if (step > last.to) removeDirectoryAtomic(run.checkpoint(step));
  }
  writeJsonAtomic(listOf(run), [...entries.slice(0, -1), { ...last, done: true }]);
}
