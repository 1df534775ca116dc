/** All that a report or the live page shows of a run, read from its folder; the run may still be training. */
import { basename, resolve } from 'node:path';
import { existsSync, statSync } from 'node:fs';
import { resolveConfig, type Config } from '../config';
import { errorCode, errorMessage } from '../errors';
import {
  discardedLines,
  readAccepted,
  readMetrics,
  readRollbacks,
  readRunDirectory,
  type AcceptedChange,
  type Rollback,
  type RunDirectory,
  type RunState,
} from '../run';
import { readSummary, type RunSummary } from '../train';
import type { StepMetrics } from '../types';

export interface RunData {
  directory: RunDirectory;
  /** Name of the folder. */
  name: string;
  state: RunState;
  /** null: written by another version; `configProblem` says what does not fit. */
  config: Config | null;
  configProblem: string | null;
  /** When the configuration was written. */
  startedAt: Date;
  /** When the last line of metrics was written; null: there is none. */
  updatedAt: Date | null;
  /** Lines of metrics.jsonl in step order. */
  lines: readonly StepMetrics[];
  rollbacks: readonly Rollback[];
  /** Reward files that were changed on resuming. */
  accepted: readonly AcceptedChange[];
  /** The lines that each rollback took back. */
  discarded: readonly (readonly StepMetrics[])[];
  /** null until the run has finished. */
  summary: RunSummary | null;
}

function configOf(directory: RunDirectory): Pick<RunData, 'config' | 'configProblem'> {
  try {
    return { config: resolveConfig([directory.settings()]), configProblem: null };
  } catch (error) {
    return { config: null, configProblem: errorMessage(error) };
  }
}

/** Settings that cannot be read are shown as such, but a run of another kind has nothing to show. */
function checkKind(directory: RunDirectory): void {
  try {
    directory.trainSettings();
  } catch (error) {
    if (errorCode(error) === 'BAD_CONFIG') throw error;
  }
}

/** @throws BAD_INPUT if `path` is no run, or naming a file of it that is damaged */
export function readRun(path: string): RunData {
  const directory = readRunDirectory(path);
  checkKind(directory);
  const rollbacks = readRollbacks(directory);
  const state = directory.state();
  return {
    directory,
    name: basename(resolve(path)),
    state,
    ...configOf(directory),
    startedAt: statSync(directory.config()).mtime,
    updatedAt: existsSync(directory.metrics()) ? statSync(directory.metrics()).mtime : null,
    lines: readMetrics(directory.metrics()),
    rollbacks,
    accepted: readAccepted(directory),
    discarded: rollbacks.map(({ number }) => discardedLines(directory, number)),
    summary: state === 'finished' ? readSummary(directory) : null,
  };
}
