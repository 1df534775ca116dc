/** Where a run's files lie, and what state a run directory is in. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { currentSettings } from '../config';
import { AcoerError, errorCode, errorMessage, whyUnreadable } from '../errors';
import { isRecord } from '../json';
import { removeTemporaries, writeJsonAtomic } from './atomic';
import { LOCK_FILE, RunLock } from './lock';

/** `step-000100`: sorts as text in step order. */
export const stepName = (step: number) => `step-${String(step).padStart(6, '0')}`;

/** @throws BAD_INPUT naming `path` */
export function readJsonFile(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch (cause) {
    throw new AcoerError('BAD_INPUT', `Cannot read ${path}: ${whyUnreadable(cause)}`, { cause });
  }
}

/** What says that a run has ended. */
interface Ended {
  run?: { steps?: unknown };
}

export class RunDirectory {
  /** @param lock held by who may write; null: the run is only read */
  constructor(
    readonly path: string,
    readonly lock: RunLock | null = null,
  ) {}

  readonly config = () => join(this.path, 'config.json');
  readonly metrics = () => join(this.path, 'metrics.jsonl');
  readonly summary = () => join(this.path, 'summary.json');
  /** Of a fork: where it comes from. */
  readonly fork = () => join(this.path, 'fork.json');
  readonly final = () => join(this.path, 'final');
  readonly checkpoints = () => join(this.path, 'checkpoints');
  readonly checkpoint = (step: number) => join(this.checkpoints(), stepName(step));
  readonly completions = (step: number) => join(this.path, 'completions', `${stepName(step)}.parquet`);
  /** What was dumped of refused steps. */
  readonly dumps = () => join(this.path, 'non-finite');
  readonly dump = (step: number) => join(this.dumps(), stepName(step));

  readonly hang = (step: number, phase: string) => join(this.path, `watchdog-${step}-${phase}.json`);

  /** The run has made its `maxSteps`: the summary, the last thing written, says so. */
  finished(maxSteps: number): boolean {
    return (
      existsSync(this.summary()) && (this.readJson(this.summary()) as Ended | null)?.run?.steps === maxSteps
    );
  }

  /** The step at which another run went on as this one; null for a run that is no fork. */
  forkedAt(): number | null {
    if (!existsSync(this.fork())) return null;
    const step = (this.readJson(this.fork()) as { step?: unknown } | null)?.step;
    return typeof step === 'number' ? step : null;
  }

  /** By a run in progress, or one that was killed. */
  isLocked(): boolean {
    return existsSync(join(this.path, LOCK_FILE));
  }

  /** Steps of the whole checkpoints, ascending. */
  checkpointSteps(): number[] {
    if (!existsSync(this.checkpoints())) return [];
    const names = readdirSync(this.checkpoints());
    return names
      .map((name) => /^step-(\d{6,})$/.exec(name))
      .filter((match) => match !== null)
      .map((match) => Number(match[1]))
      .sort((a, b) => a - b);
  }

  /** The settings in config.json, as they were stored. @throws BAD_INPUT when it holds none */
  settings(): object {
    const settings = this.readJson(this.config());
    if (isRecord(settings)) return currentSettings(settings);
    throw new AcoerError('BAD_INPUT', `${this.config()} holds no settings; the run is damaged.`);
  }

  readJson(path: string): unknown {
    return readJsonFile(path);
  }
}

const RUN_FILES = ['config.json', 'metrics.jsonl', 'summary.json', 'checkpoints', 'final', 'completions'];

/** Whether `path` holds anything a run writes. */
export function holdsRun(path: string): boolean {
  return RUN_FILES.some((name) => existsSync(join(path, name)));
}

/** Makes the folder of a new run, locks it and writes its configuration, the first file of every run. */
export function createRunDirectory(path: string, config: unknown): RunDirectory {
  try {
    mkdirSync(path, { recursive: true });
  } catch (cause) {
    throw cannotWrite(path, cause);
  }
  const run = lockedDirectory(path);
  try {
    if (holdsRun(path)) {
      throw new AcoerError(
        'RUN_EXISTS',
        `${path} holds a run already: go on with it by --resume ${path}, or name another folder with --out.`,
      );
    }
    // Of a start that was killed; other files may be anybody's.
    for (const file of ['config.json', LOCK_FILE]) removeTemporaries(path, file);
    for (const folder of ['completions', 'checkpoints']) mkdirSync(join(path, folder), { recursive: true });
    writeJsonAtomic(run.config(), config);
  } catch (error) {
    run.lock?.release();
    throw errorCode(error) === 'RUN_EXISTS' ? error : cannotWrite(path, error);
  }
  return run;
}

const cannotWrite = (path: string, cause: unknown) =>
  new AcoerError('BAD_INPUT', `Cannot write the run to ${path}: ${errorMessage(cause)}`, { cause });

function lockedDirectory(path: string): RunDirectory {
  try {
    return new RunDirectory(path, RunLock.acquire(path));
  } catch (error) {
    throw errorCode(error) === 'RUN_LOCKED' ? error : cannotWrite(path, error);
  }
}

/** Takes back what `createRunDirectory` made, for a run that could not begin; other files stay. */
export function discardRunDirectory(run: RunDirectory): void {
  for (const file of [run.config(), run.fork(), run.metrics()]) rmSync(file, { force: true });
  run.lock?.release();
  for (const folder of [join(run.path, 'completions'), join(run.path, 'checkpoints'), run.path]) {
    if (readdirSync(folder).length === 0) rmdirSync(folder);
  }
}

/** A run to be read. */
export function readRunDirectory(path: string): RunDirectory {
  const run = new RunDirectory(path);
  if (!existsSync(run.config())) {
    throw new AcoerError('BAD_INPUT', `${path} holds no run: there is no config.json in it.`);
  }
  return run;
}

/** Locks a run to go on with it; what a crash left half-written is removed. @throws RUN_LOCKED */
export function openRunDirectory(path: string): RunDirectory {
  readRunDirectory(path);
  const run = lockedDirectory(path);
  try {
    for (const folder of ['completions', 'checkpoints']) {
      mkdirSync(join(path, folder), { recursive: true });
      removeTemporaries(join(path, folder));
    }
    if (existsSync(run.dumps())) removeTemporaries(run.dumps());
    removeTemporaries(path);
  } catch (error) {
    run.lock?.release();
    throw cannotWrite(path, error);
  }
  return run;
}

/** `<parent>/<date>-<name>`, with a number behind it when that is taken. */
export function newRunPath(parent: string, name: string, now = new Date()): string {
  const two = (value: number) => String(value).padStart(2, '0');
  const day = `${now.getFullYear()}${two(now.getMonth() + 1)}${two(now.getDate())}`;
  const time = `${two(now.getHours())}${two(now.getMinutes())}${two(now.getSeconds())}`;
  const base = join(parent, `${day}-${time}-${name}`);
  let path = base;
  for (let i = 2; existsSync(path); i++) path = `${base}-${i}`;
  return path;
}

/** The folder in `parent` whose run began last. */
export function latestRun(parent: string): string {
  const runs = (existsSync(parent) ? readdirSync(parent) : [])
    .map((name) => join(parent, name))
    .filter((path) => existsSync(join(path, 'config.json')))
    .map((path) => ({ path, begunMs: statSync(join(path, 'config.json')).mtimeMs }))
    .sort((a, b) => b.begunMs - a.begunMs);
  if (runs.length === 0) {
    throw new AcoerError('BAD_CONFIG', `There is no run in ${parent}/ to resume; name its folder.`);
  }
  return runs[0]!.path;
}
