/** What the folder of a sweep's run says of it. */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { shownJson } from '../base/json';
import { mean } from '../base/statistics';
import { HEALTH, type StepMetrics } from '../base/types';
import type { Config } from '../config';
import {
  lineMetrics,
  linesSince,
  readProgress,
  readRunDirectory,
  readSoundMetrics,
  RunDirectory,
} from '../run';
import { lockOwner, lockState } from '../run/lock';
import { resolveTrainConfig } from '../train';

const COLLAPSED = HEALTH.indexOf('collapsed');
const STATE = 'monitor/state';

/** Whether the run's metrics show a collapse. */
export async function showsCollapse(path: string): Promise<boolean> {
  const lines = await readSoundMetrics(new RunDirectory(path).metrics());
  return lines.some((line) => line[STATE] === COLLAPSED);
}

/** How a run has ended that no process of this sweep saw end; null: it has not, or it is not known. */
export async function foundEnd(
  path: string,
  { maxSteps, onCollapse }: Pick<Config, 'maxSteps' | 'onCollapse'>,
): Promise<'finished' | 'collapsed' | null> {
  const run = new RunDirectory(path);
  if (!existsSync(run.config())) return null;
  if (run.finished(maxSteps)) return 'finished';
  if (onCollapse !== 'stop') return null;
  const last = (await readSoundMetrics(run.metrics())).at(-1);
  if (last?.[STATE] !== COLLAPSED) return null;
  // One that was killed before it ended by itself ends again when it is resumed; one that has ended would go on.
  const saved = run.checkpointSteps().at(-1) === last.step;
  return saved || readProgress(path)?.phase === 'failed' ? 'collapsed' : null;
}

/** Settings that a run keeps with a place or a commit. */
const PLACES: readonly string[] = ['model', 'dataset', 'evalDataset', 'adapter'];
/** Settings that name code by its place; their content is compared when the run is resumed. */
const CODE: readonly string[] = ['rewardModules', 'judge', 'sampler', 'sinks'];
/** Settings that change no number of a run, or only round it otherwise. */
const FREE: readonly string[] = ['name', 'notify', 'threads', 'device', 'saveSteps', 'keepCheckpoints'];

function sameSetting(name: string, stored: unknown, wanted: unknown): boolean {
  if (JSON.stringify(stored) === JSON.stringify(wanted) || CODE.includes(name)) return true;
  if (!PLACES.includes(name) || typeof stored !== 'string' || typeof wanted !== 'string') return false;
  // A data set may be a sum of several, each with its commit.
  const plain = (text: string): string => text.replace(/@[\w.-]+/g, '');
  return plain(stored) === plain(wanted) || resolve(stored) === resolve(wanted);
}

/** What the run in `path` was begun with instead of `wanted`, as `reward: "acc", not "acoer"`. @throws BAD_INPUT, BAD_CONFIG */
export function otherSettings(path: string, wanted: Config): string[] {
  const stored = resolveTrainConfig([readRunDirectory(path).trainSettings()]);
  const names = (Object.keys(wanted) as (keyof Config)[]).filter((name) => !FREE.includes(name));
  return names
    .filter((name) => !sameSetting(name, stored[name], wanted[name]))
    .map((name) => `${name}: ${shownJson(stored[name])}, not ${shownJson(wanted[name])}`);
}

/** The process that writes to a run's folder; null: none does. `pid` null: it has not said so. */
export function writerOf(path: string): { pid: number | null } | null {
  return existsSync(path) && lockState(path) === 'held' ? { pid: lockOwner(path)?.pid ?? null } : null;
}

const POLL_MS = 200;

/** Waits until nobody writes to a run's folder. @param signal ends the wait */
export async function untilFree(path: string, signal: AbortSignal): Promise<void> {
  while (writerOf(path) !== null && !signal.aborted) {
    await wait(POLL_MS, undefined, { signal }).catch(() => undefined);
  }
}

/** A running run, for one line. */
export interface RunNow {
  /** Steps made. */
  step: number;
  maxSteps: number;
  phase: string | null;
  /** Means over the last steps; null: none was made. */
  accuracy: number | null;
  thinkingTokens: number | null;
  stepSeconds: number | null;
}

/** Steps that are averaged. */
const RECENT = 20;

const meanOf = (lines: readonly StepMetrics[], metric: string): number | null => {
  const values = lines.map((line) => line[metric]).filter((value) => value !== undefined);
  return values.length === 0 ? null : mean(values);
};

/** What a run does now, from the end of its files. */
export function runNow(path: string, maxSteps: number): RunNow {
  const progress = readProgress(path);
  const from = Math.max(1, (progress?.step ?? 1) - RECENT);
  const lines = linesSince(new RunDirectory(path).metrics(), from)
    .split('\n')
    .map(lineMetrics)
    .filter((line) => line !== null)
    .slice(-RECENT);
  return {
    step: lines.at(-1)?.step ?? 0,
    maxSteps,
    phase: progress?.phase ?? null,
    accuracy: meanOf(lines, 'accuracy/mean'),
    thinkingTokens: meanOf(lines, 'thinking/mean'),
    stepSeconds: meanOf(lines, 'step_time'),
  };
}

/** Mean seconds of a run's steps; null: none was made. */
export async function measuredSeconds(path: string): Promise<number | null> {
  return meanOf(await readSoundMetrics(new RunDirectory(path).metrics()), 'step_time');
}
