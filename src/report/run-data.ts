/** All that a report or the live page shows of a run, read from its folder; the run may still be training. */
import { basename, resolve } from 'node:path';
import { statSync } from 'node:fs';
import { resolveConfig, type Config } from '../config';
import { errorMessage } from '../base/errors';
import {
  discardedLines,
  isSupervised,
  readAccepted,
  readMetrics,
  readRollbacks,
  readRunDirectory,
  type AcceptedChange,
  type Rollback,
  type RunDirectory,
  type RunState,
} from '../run';
import { resolveSft, type SftConfig } from '../sft';
import { readSummary, type RunSummary } from '../train';
import type { StepMetrics } from '../base/types';

export interface RunData {
  directory: RunDirectory;
  /** Name of the folder. */
  name: string;
  state: RunState;
  /** null: written by another version; `configProblem` says what does not fit. */
  config: Config | null;
  configProblem: string | null;
  /** The settings of a supervised run, which has no others; null: it is a run of `train`. */
  sft: SftConfig | null;
  /** When the configuration was written. */
  startedAt: Date;
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

/** Settings that cannot be read are shown as such. */
function settingsOf(directory: RunDirectory): Pick<RunData, 'config' | 'configProblem' | 'sft'> {
  const none = { config: null, configProblem: null, sft: null };
  try {
    const settings = directory.settings();
    if (isSupervised(settings)) return { ...none, sft: resolveSft([settings]) };
    return { ...none, config: resolveConfig([settings]) };
  } catch (error) {
    return { ...none, configProblem: errorMessage(error) };
  }
}

/** @throws BAD_INPUT if `path` is no run, or naming a file of it that is damaged */
export function readRun(path: string): RunData {
  const directory = readRunDirectory(path);
  const rollbacks = readRollbacks(directory);
  const state = directory.state();
  const settings = settingsOf(directory);
  return {
    directory,
    name: basename(resolve(path)),
    state,
    ...settings,
    startedAt: statSync(directory.config()).mtime,
    lines: readMetrics(directory.metrics()),
    rollbacks,
    accepted: readAccepted(directory),
    discarded: rollbacks.map(({ number }) => discardedLines(directory, number)),
    summary: state === 'finished' && settings.sft === null ? readSummary(directory) : null,
  };
}
