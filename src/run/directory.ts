/** The layout of a run's files, and the state of a run directory. */
import { existsSync, lstatSync, readdirSync, rmdirSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { currentSettings, resolveConfig } from '../config';
import { AcoerError, badInput, badUsage, errorCode, unreadable, whyUnwritten } from '../base/errors';
import { makeFolders, syncFolder } from '../base/folders';
import { isRecord } from '../base/json';
import { MAX_TEXT_BYTES, readRegularFileSync } from '../base/regular-file';
import { removeTemporaries, TEMPORARY_PREFIX, writeJsonAtomic } from './atomic';
import type { EvaluationKind } from './completions';
import { LOCK_FILE, lockState, RunLock } from './lock';

/** `step-000100`, which sorts as text in step order. */
export const stepName = (step: number) => `step-${String(step).padStart(6, '0')}`;

/** A run's settings have some KB, with data given to `train()` some MB. */
const MOST_SETTINGS_BYTES = 64 * 1024 * 1024;

/** @param mostBytes of a file that nobody needs to be larger @throws BAD_INPUT naming `path` */
export function readJsonFile(path: string, mostBytes = MAX_TEXT_BYTES): unknown {
  try {
    return JSON.parse(readRegularFileSync(path, mostBytes).toString('utf8'));
  } catch (cause) {
    throw unreadable(path, cause);
  }
}

/** The names in a folder in order; none if it does not exist. @throws BAD_INPUT naming it if it cannot be read */
function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder).sort();
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT') return [];
    throw unreadable(folder, cause);
  }
}

/** The part of summary.json that says that a run has ended. */
interface Ended {
  run?: { steps?: unknown };
}

/** In a run and in its checkpoints. */
export const METRICS_FILE = 'metrics.jsonl';

export type RunState = 'running' | 'finished' | 'stopped' | 'killed';

/** Whether stored settings are those of `acoer sft`: only a supervised run counts epochs. */
export const isSupervised = (settings: object): boolean => 'epochs' in settings;

export class RunDirectory {
  /** @param lock held by the process that may write; null: the run is read-only */
  constructor(
    readonly path: string,
    readonly lock: RunLock | null = null,
  ) {}

  readonly config = () => join(this.path, 'config.json');
  readonly metrics = () => join(this.path, METRICS_FILE);
  readonly metricsCsv = () => join(this.path, 'metrics.csv');
  /** Folder of TensorBoard's event file. */
  readonly tensorboard = () => join(this.path, 'tensorboard');
  /** Where the event file is written first. */
  readonly stagedEvents = () => join(this.path, `${TEMPORARY_PREFIX}tensorboard-${process.pid}`);
  /** What the run is doing now (progress.ts). */
  readonly progress = () => join(this.path, 'progress.json');
  readonly summary = () => join(this.path, 'summary.json');
  /** In a fork: the run and step it comes from. */
  readonly fork = () => join(this.path, 'fork.json');
  readonly final = () => join(this.path, 'final');
  /** Adapters that servers sample with. */
  readonly sampler = () => join(this.path, 'sampler');
  readonly checkpoints = () => join(this.path, 'checkpoints');
  readonly checkpoint = (step: number) => join(this.checkpoints(), stepName(step));
  readonly completions = (step: number) => join(this.path, 'completions', `${stepName(step)}.parquet`);
  /** The answers of an evaluation of the weights after `step`; 0 is the base model. */
  readonly answers = (step: number, kind: EvaluationKind) =>
    join(this.path, 'evaluations', `${stepName(step)}-${kind}.parquet`);
  /** Dumps of refused steps. */
  readonly dumps = () => join(this.path, 'non-finite');
  readonly dump = (step: number) => join(this.dumps(), stepName(step));

  /** Copies of lines of metrics.jsonl in the checkpoints. */
  readonly savedMetrics = () =>
    this.checkpointSteps().map((step) => join(this.checkpoint(step), METRICS_FILE));

  readonly hang = (step: number, phase: string) => join(this.path, `watchdog-${step}-${phase}.json`);

  /** Whether the run has completed `maxSteps`: the summary, which is written last, says so. */
  finished(maxSteps: number): boolean {
    return (
      existsSync(this.summary()) && (this.readJson(this.summary()) as Ended | null)?.run?.steps === maxSteps
    );
  }

  /** The step at which this run was forked from another; null if it is not a fork. */
  forkedAt(): number | null {
    if (!existsSync(this.fork())) return null;
    const step = (this.readJson(this.fork()) as { step?: unknown } | null)?.step;
    return typeof step === 'number' ? step : null;
  }

  /** What has become of the run: a `killed` one has left its lock, a `stopped` one can be resumed as well. */
  state(): RunState {
    const maxSteps = (this.settings() as { maxSteps?: unknown }).maxSteps;
    if (typeof maxSteps === 'number' && this.finished(maxSteps)) return 'finished';
    return ({ held: 'running', left: 'killed', free: 'stopped' } as const)[lockState(this.path)];
  }

  /** Whether a run in progress, or one that was killed, has the lock. */
  isLocked(): boolean {
    return existsSync(join(this.path, LOCK_FILE));
  }

  /** Steps of the complete checkpoints, ascending. */
  checkpointSteps(): number[] {
    return namesIn(this.checkpoints())
      .map((name) => /^step-(\d{6,})$/.exec(name))
      .filter((match) => match !== null)
      .map((match) => Number(match[1]))
      .sort((a, b) => a - b);
  }

  /** The settings in config.json as stored. @throws BAD_INPUT if there are none */
  settings(): object {
    const settings = readJsonFile(this.config(), MOST_SETTINGS_BYTES);
    if (isRecord(settings)) return currentSettings(settings);
    throw badInput(`${this.config()} contains no settings; the run is damaged.`);
  }

  /** The settings of a run of `acoer train`. @throws BAD_CONFIG for one of `acoer sft` */
  trainSettings(): object {
    const settings = this.settings();
    if (!isSupervised(settings)) return settings;
    throw badUsage(
      `${this.path} is a run of acoer sft, which has no rewards, completions or answers; resume it with acoer sft --resume ${this.path}, or go on from it with acoer train --adapter ${this.path}/final.`,
    );
  }

  /** The run's `promptTemplate`; the default if the run is older than the setting. */
  promptTemplate(): string {
    const { promptTemplate } = this.settings() as { promptTemplate?: unknown };
    return typeof promptTemplate === 'string' ? promptTemplate : resolveConfig([]).promptTemplate;
  }

  readJson(path: string): unknown {
    return readJsonFile(path);
  }
}

const RUN_FILES = [
  'config.json',
  METRICS_FILE,
  'progress.json',
  'summary.json',
  'checkpoints',
  'final',
  'completions',
];

/** Whether `path` contains anything that a run writes. */
export function holdsRun(path: string): boolean {
  return RUN_FILES.some((name) => existsSync(join(path, name)));
}

/** Creates and locks the folder of a new run and writes its configuration, the first file of every run. */
export function createRunDirectory(path: string, config: unknown): RunDirectory {
  try {
    makeFolders(path);
  } catch (cause) {
    throw cannotWrite(path, cause);
  }
  const run = lockedDirectory(path);
  try {
    if (holdsRun(path)) {
      throw new AcoerError(
        'RUN_EXISTS',
        `${path} already contains a run; resume it (--resume ${path}, or resume of train()), or choose another folder (--out, or out).`,
      );
    }
    // Left by a start that was killed. Any other file may belong to someone else.
    removeTemporaries(path, 'config.json');
    // First, since whatever else is there makes it a run, which could not be resumed without.
    writeJsonAtomic(run.config(), config);
    for (const folder of ['completions', 'checkpoints']) makeFolders(join(path, folder));
  } catch (error) {
    run.lock?.release();
    throw errorCode(error) === 'RUN_EXISTS' ? error : cannotWrite(path, error);
  }
  return run;
}

const cannotWrite = (path: string, cause: unknown) =>
  badInput(`Cannot write the run to ${path}: ${whyUnwritten(cause)}`, cause);

function lockedDirectory(path: string): RunDirectory {
  try {
    return new RunDirectory(path, RunLock.acquire(path));
  } catch (error) {
    throw error instanceof AcoerError ? error : cannotWrite(path, error);
  }
}

/** Removes what `createRunDirectory` created for a run that could not start; other files stay. */
export function discardRunDirectory(run: RunDirectory): void {
  for (const file of [run.config(), run.fork(), run.metrics(), run.progress()]) rmSync(file, { force: true });
  run.lock?.release();
  for (const folder of [join(run.path, 'completions'), join(run.path, 'checkpoints'), run.path]) {
    if (readdirSync(folder).length === 0) rmdirSync(folder);
  }
}

/** Opens a run for reading. */
export function readRunDirectory(path: string): RunDirectory {
  const run = new RunDirectory(path);
  if (!existsSync(run.config())) {
    throw badInput(`${path} is not a run: it has no config.json.`);
  }
  return run;
}

/**
 * The folder of what a run has trained.
 * @param step of a checkpoint; null: `final/`, or the newest checkpoint of a run that has not ended
 * @throws BAD_INPUT
 */
export function trainedFolder(run: RunDirectory, step: number | null): string {
  const steps = run.checkpointSteps();
  if (step !== null) {
    if (steps.includes(step)) return run.checkpoint(step);
    const has = steps.length === 0 ? 'no checkpoints' : `checkpoints of the steps ${steps.join(', ')}`;
    throw badInput(`${run.path} has no checkpoint of step ${step}; it has ${has}.`);
  }
  if (existsSync(run.final())) return run.final();
  const newest = steps.at(-1);
  if (newest !== undefined && newest > 0) return run.checkpoint(newest);
  throw badInput(`${run.path} has neither final/ nor a checkpoint yet; nothing has been trained.`);
}

const FOLDERS = ['completions', 'checkpoints', 'evaluations', 'non-finite', 'tensorboard', 'final'];

/** Going on would write and delete where the link leads. @throws BAD_INPUT */
function refuseLinks(path: string): void {
  for (const folder of FOLDERS.map((name) => join(path, name))) {
    if (lstatSync(folder, { throwIfNoEntry: false })?.isSymbolicLink() !== true) continue;
    throw badInput(
      `${folder} is a link, and continuing the run would write and delete files where it leads; put the folder itself in its place (to use another disk, move the whole run there).`,
    );
  }
}

/** Locks a run to continue it, and removes what a crash left half-written. @throws RUN_LOCKED */
export function openRunDirectory(path: string): RunDirectory {
  readRunDirectory(path);
  refuseLinks(path);
  const run = lockedDirectory(path);
  try {
    // A run that was killed may have left these names in memory only.
    for (const folder of [dirname(path), path]) syncFolder(folder);
    for (const folder of ['completions', 'checkpoints']) makeFolders(join(path, folder));
    for (const folder of ['completions', 'checkpoints', 'evaluations', 'non-finite', '']) {
      if (existsSync(join(path, folder))) removeTemporaries(join(path, folder));
    }
  } catch (error) {
    run.lock?.release();
    throw cannotWrite(path, error);
  }
  return run;
}

/** `<parent>/<date>-<name>`, with a number appended if that exists. */
export function newRunPath(parent: string, name: string, now = new Date()): string {
  const two = (value: number) => String(value).padStart(2, '0');
  const day = `${now.getFullYear()}${two(now.getMonth() + 1)}${two(now.getDate())}`;
  const time = `${two(now.getHours())}${two(now.getMinutes())}${two(now.getSeconds())}`;
  const base = join(parent, `${day}-${time}-${name}`);
  let path = base;
  for (let i = 2; existsSync(path); i++) path = `${base}-${i}`;
  return path;
}

/** The folder in `parent` of the run that was started last. */
export function latestRun(parent: string): string {
  const runs = (existsSync(parent) ? readdirSync(parent) : [])
    .map((name) => join(parent, name))
    .filter((path) => existsSync(join(path, 'config.json')))
    .map((path) => ({ path, begunMs: statSync(join(path, 'config.json')).mtimeMs }))
    .sort((a, b) => b.begunMs - a.begunMs);
  if (runs.length === 0) {
    throw badUsage(`There is no run to resume in ${parent}/; name its folder.`);
  }
  return runs[0]!.path;
}
