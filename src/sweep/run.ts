/** A sweep from its start to its end: the schedule's starts become processes, and their ends its events. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { badUsage, errorMessage } from '../base/errors';
import { listed } from '../base/text';
import { RunDirectory } from '../run';
import type { SweepFile } from './file';
import { foundEnd, otherSettings, showsCollapse, untilFree, writerOf } from './found';
import {
  inSlot,
  readSweep,
  runPath,
  SweepFolder,
  unbegun,
  type Slot,
  type Sweep,
  type SweepRun,
} from './folder';
import type { PlannedRun, Together } from './plan';
import { startRun, type AcoerCommand, type RunProcess } from './processes';
import {
  advance,
  exitCodeOf,
  isOver,
  waitingJob,
  type Ending,
  type Job,
  type Schedule,
  type SweepEvent,
} from './schedule';
import { writeTables } from './tables-files';

/** What the view is told. */
export type SweepNews =
  | { type: 'waiting for'; run: SweepRun; pid: number | null }
  | { type: 'started'; run: SweepRun; alone: boolean }
  | { type: 'ended'; run: SweepRun }
  | { type: 'comparing'; runs: number }
  | { type: 'compared'; report: string }
  | { type: 'warning'; message: string };

export interface SweepOptions {
  file: SweepFile;
  runs: readonly PlannedRun[];
  kind: 'sampled' | 'greedy';
  path: string;
  resume: boolean;
  /** Names of entries of `runs`; none: all. */
  only: readonly string[];
  slot: Slot | null;
  together: Together;
  command: AcoerCommand;
  /** Ends the sweep: its runs save and end, and it can be resumed. */
  signal: AbortSignal;
  onNews: (news: SweepNews) => void;
}

export interface SweepEnd {
  exitCode: 0 | 1 | 75 | 130;
  sweep: Sweep;
  /** The runs that this process was asked for. */
  own: SweepRun[];
}

const recordOf = ({ name: _name, config: _config, ...run }: PlannedRun): SweepRun => unbegun(run);

/**
 * The sweep of the file, with the states of what is there already.
 * @param begun whether a run has a folder, whose settings cannot be changed any more
 * @throws BAD_CONFIG if a run that has begun has other settings now
 */
export function mergedSweep(
  { file, runs, kind, slot, path }: Pick<SweepOptions, 'file' | 'runs' | 'kind' | 'slot' | 'path'>,
  stored: Sweep | null,
  begun: (run: SweepRun) => boolean,
): Sweep {
  const before = new Map(stored?.runs.map((run) => [run.folder, run]));
  const other = runs.filter(({ folder, hash }) => {
    const run = before.get(folder);
    if (run === undefined) return stored !== null && slot !== null;
    return run.hash !== hash && (slot !== null || begun(run));
  });
  if (other.length > 0) {
    const names = listed(other.slice(0, 5).map(({ folder }) => folder));
    throw badUsage(
      `${file.path} has other settings for ${names} than ${path}; restore the file, remove those folders, or choose another folder (--out).`,
    );
  }
  const merged = runs.map((run): SweepRun => {
    const known = before.get(run.folder);
    // A run whose folder was removed is to be made again.
    const kept = known?.hash === run.hash && (known.state !== 'done' || begun(known));
    return kept ? { ...recordOf(run), ...statesOf(known) } : recordOf(run);
  });
  const planned = new Set(runs.map(({ folder }) => folder));
  // What the file does not name any more stays as it is, if there is something of it.
  const left = stored?.runs.filter((run) => !planned.has(run.folder) && begun(run)) ?? [];
  return {
    version: 1,
    name: file.name,
    made: stored?.made ?? new Date().toISOString(),
    evaluation: { kind },
    taken: file.overlay,
    runs: [...merged, ...left],
  };
}

const statesOf = ({
  state,
  exitCode,
  startedAt,
  endedAt,
  collapsed,
  message,
}: SweepRun): Partial<SweepRun> => ({
  state,
  exitCode,
  startedAt,
  endedAt,
  collapsed,
  message,
});

/** A stored run as a job of this process: what is not done is to be done. */
const jobOf = ({ state, exitCode, collapsed }: SweepRun): Job =>
  state === 'done' ? { ...waitingJob(), state, exitCode, collapsed } : waitingJob();

class RunningSweep {
  private schedule: Schedule;
  private readonly processes = new Map<number, RunProcess>();
  private readonly over: Promise<void>;
  private end: () => void = () => undefined;
  /** Why the sweep itself cannot go on. */
  private failure: { error: unknown } | null = null;

  constructor(
    private readonly options: SweepOptions,
    private readonly folder: SweepFolder,
    private readonly sweep: Sweep,
    /** Places in `sweep.runs` of what this process was asked for. */
    private readonly own: readonly number[],
  ) {
    this.schedule = {
      jobs: own.map((i) => jobOf(sweep.runs[i]!)),
      parallel: options.together.parallel,
      maxFailures: options.file.maxFailures,
      failures: 0,
      stopping: options.signal.aborted,
    };
    this.over = new Promise((resolve) => (this.end = resolve));
  }

  async run(): Promise<SweepEnd['exitCode']> {
    const { signal } = this.options;
    const stop = (): void => this.handle({ type: 'stop' });
    signal.addEventListener('abort', stop);
    try {
      this.handle({ type: signal.aborted ? 'stop' : 'begin' });
      await this.over;
    } finally {
      signal.removeEventListener('abort', stop);
    }
    if (this.failure !== null) throw this.failure.error;
    return exitCodeOf(this.schedule);
  }

  private runOf(job: number): SweepRun {
    return this.sweep.runs[this.own[job]!]!;
  }

  private handle(event: SweepEvent): void {
    const { schedule, starts } = advance(this.schedule, event);
    this.schedule = schedule;
    if (event.type === 'stop') for (const process of this.processes.values()) process.stop();
    this.note(event, starts);
    try {
      this.write();
      for (const job of starts) this.start(job);
    } catch (error) {
      this.fail(error, starts);
    }
    if (isOver(this.schedule)) this.end();
  }

  /** Takes over what the schedule says of each run. */
  private note(event: SweepEvent, starts: readonly number[]): void {
    const now = new Date().toISOString();
    for (const [job, { state, exitCode, collapsed, message }] of this.schedule.jobs.entries()) {
      const run = this.runOf(job);
      Object.assign(run, { state, exitCode, collapsed, message });
      if (starts.includes(job)) Object.assign(run, { startedAt: now, endedAt: null });
    }
    if (event.type !== 'ended') return;
    const run = this.runOf(event.job);
    const again = starts.includes(event.job);
    if (!again) run.endedAt = now;
    const { exitCode, message } = event.ending;
    const shown = again ? { ...run, state: 'waiting' as const, exitCode, message } : { ...run };
    this.options.onNews({ type: 'ended', run: shown });
  }

  private write(): void {
    this.folder.write(this.sweep, new Set(this.own.map((i) => this.sweep.runs[i]!.folder)));
  }

  private start(job: number): void {
    const run = this.runOf(job);
    const { command, path, together, onNews } = this.options;
    const threads = run.settings['threads'] === undefined ? together.threads : null;
    const process = startRun({ command, sweepPath: path, run, threads });
    this.processes.set(job, process);
    onNews({ type: 'started', run: { ...run }, alone: this.schedule.jobs[job]!.turn === 'alone' });
    void process.ended.then(async (ending) => {
      this.processes.delete(job);
      this.handle({ type: 'ended', job, ending: await this.found(run, ending) });
    });
  }

  /** What a process has ended with, by its run's files as well: one that was killed may have made its run. */
  private async found(run: SweepRun, ending: Omit<Ending, 'collapsed'>): Promise<Ending> {
    const folder = runPath(this.options.path, run);
    const { config } = this.options.runs.find((one) => one.folder === run.folder)!;
    const collapsed = await showsCollapse(folder).catch(() => false);
    const silent = ending.exitCode !== 0 && ending.failure === null;
    const end = silent ? await foundEnd(folder, config).catch(() => null) : null;
    if (end === 'finished') return { ...ending, exitCode: 0, collapsed };
    return { ...ending, failure: end === 'collapsed' ? 'COLLAPSED' : ending.failure, collapsed };
  }

  /** The sweep's own files cannot be written, or no process started: what runs saves and ends. */
  private fail(error: unknown, starts: readonly number[]): void {
    this.failure ??= { error };
    const jobs = this.schedule.jobs.map((job, i): Job =>
      starts.includes(i) && !this.processes.has(i) ? { ...job, state: 'waiting' } : job,
    );
    this.schedule = { ...this.schedule, jobs, stopping: true };
    for (const process of this.processes.values()) process.stop();
  }
}

/** A folder that was made under other settings would be compared as what it is not. @throws BAD_CONFIG */
function refuseForeign({ path, runs }: SweepOptions, begun: readonly SweepRun[]): void {
  for (const { folder, startedAt } of begun) {
    // What this sweep has started has its settings.
    if (startedAt !== null) continue;
    const other = otherSettings(runPath(path, { folder }), runs.find((run) => run.folder === folder)!.config);
    if (other.length === 0) continue;
    throw badUsage(
      `${runPath(path, { folder })} was begun with other settings (${other.slice(0, 3).join('; ')}); move it away, or choose another folder (--out).`,
    );
  }
}

/** Waits for the runs that a killed sweep has left, and notes those that have ended meanwhile. */
async function settle({ path, signal, onNews, runs }: SweepOptions, own: readonly SweepRun[]): Promise<void> {
  for (const run of own) {
    const folder = runPath(path, run);
    const writer = writerOf(folder);
    if (writer !== null) onNews({ type: 'waiting for', run, pid: writer.pid });
    await untilFree(folder, signal);
    if (run.state !== 'running') continue;
    const end = await foundEnd(folder, runs.find((one) => one.folder === run.folder)!.config);
    if (end === null) continue;
    const collapsed = end === 'collapsed' || (await showsCollapse(folder));
    const exitCode = end === 'collapsed' ? 1 : 0;
    Object.assign(run, { state: 'done', exitCode, collapsed, endedAt: new Date().toISOString() });
    onNews({ type: 'ended', run: { ...run } });
  }
}

/** Runs that this process is asked for: of the names, and of the slot. @throws BAD_CONFIG for a name that no run has */
export function chosenRuns({
  runs,
  only,
  slot,
  file,
}: Pick<SweepOptions, 'runs' | 'only' | 'slot' | 'file'>): PlannedRun[] {
  const names = file.methods.map(({ name }) => name);
  const unknown = only.filter((name) => !names.includes(name));
  if (unknown.length > 0)
    throw badUsage(`--only: ${file.path} has no run ${listed(unknown)}; it has ${listed(names)}.`);
  return runs.filter(({ name, hash }) => (only.length === 0 || only.includes(name)) && inSlot(slot, hash));
}

/** Whether all runs of a sweep have ended, so that its report has everything. */
const isComplete = ({ runs }: Sweep): boolean =>
  runs.every(({ state }) => ['done', 'failed', 'skipped'].includes(state));

/** Whether the report could be written; the runs are made all the same. */
async function compared(path: string, runs: number, onNews: SweepOptions['onNews']): Promise<boolean> {
  const warn = (message: string): void => onNews({ type: 'warning', message });
  onNews({ type: 'comparing', runs });
  try {
    await writeTables(path, warn);
    const report = join(path, 'report.html');
    if (existsSync(report)) onNews({ type: 'compared', report });
    return true;
  } catch (error) {
    warn(`The report could not be written: ${errorMessage(error)} To try again: acoer report ${path}`);
    return false;
  }
}

/**
 * Makes the runs that are left, and at the end the report.
 * @throws BAD_CONFIG, RUN_EXISTS, RUN_LOCKED before anything is started; the system's error if a file of the sweep cannot
 * be written, when its runs have saved and ended
 */
export async function runSweep(options: SweepOptions): Promise<SweepEnd> {
  const { path, slot, signal, onNews } = options;
  const chosen = new Set(chosenRuns(options).map(({ folder }) => folder));
  const folder = SweepFolder.open(path, options.resume, slot);
  try {
    const begun = (run: SweepRun): boolean => existsSync(new RunDirectory(runPath(path, run)).config());
    const sweep = mergedSweep(options, folder.stored, begun);
    const own = [...sweep.runs.keys()].filter((i) => chosen.has(sweep.runs[i]!.folder));
    const ownRuns = own.map((i) => sweep.runs[i]!);
    refuseForeign(options, ownRuns.filter(begun));
    // From here on it can be resumed.
    folder.write(sweep, chosen);
    await settle(options, ownRuns);
    const exitCode = await new RunningSweep(options, folder, sweep, own).run();
    const last = slot === null || isComplete(readSweep(path));
    const written = signal.aborted || !last || (await compared(path, sweep.runs.length, onNews));
    return { exitCode: exitCode === 0 && !written ? 1 : exitCode, sweep, own: ownRuns };
  } finally {
    folder.close();
  }
}
