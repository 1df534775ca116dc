/**
 * Which run of a sweep is started when: events in, starts out. Knows neither processes nor files. Runs start in their
 * order, up to `parallel` at a time. What failed for reasons outside it is tried again after the others.
 */
import type { SweepRunState } from './folder';

/** One run as the schedule sees it. */
export interface Job {
  readonly state: SweepRunState;
  readonly exitCode: number | null;
  readonly collapsed: boolean;
  readonly message: string | null;
  /** When it may start again: with the others, after them, or after them and with nothing beside it. */
  readonly turn: 'now' | 'later' | 'alone';
  /** How often it was put off because what it needs was not there. */
  readonly putOff: number;
}

export interface Schedule {
  readonly jobs: readonly Job[];
  /** Most runs at a time. */
  readonly parallel: number;
  /** After so many failures nothing is started any more; null: no limit. */
  readonly maxFailures: number | null;
  /** Failures since this process began. */
  readonly failures: number;
  /** The sweep was asked to end. */
  readonly stopping: boolean;
}

/** What a run's process has ended with. */
export interface Ending {
  /** 128 and the number of the signal for one that was killed. */
  exitCode: number;
  /** Whether a signal that cannot be caught killed it, as the kernel's for want of memory. */
  killed: boolean;
  /** The code of the error that it told of; null: it told of none. */
  failure: string | null;
  /** One sentence; null: it said nothing. */
  message: string | null;
  /** Whether its metrics show a collapse. */
  collapsed: boolean;
}

export type SweepEvent =
  { type: 'begin' } | { type: 'ended'; job: number; ending: Ending } | { type: 'stop' };

/** A job that has not run, or whose run is to go on. */
export const waitingJob = (): Job => ({
  state: 'waiting',
  exitCode: null,
  collapsed: false,
  message: null,
  turn: 'now',
  putOff: 0,
});

/** How often a run is put off before it is left for a later --resume. */
const MOST_PUT_OFF = 3;
const INTERRUPTED = 130;
/** EX_TEMPFAIL: no server samples. */
const TRY_AGAIN = 75;
/** Another process has the run, as one that a killed sweep has left. */
const IN_USE: readonly (string | null)[] = ['RUN_LOCKED', 'RUN_EXISTS'];

/** What an ended run is now. */
function after(job: Job, ending: Ending, stopping: boolean): Job {
  const { exitCode, failure, message, collapsed } = ending;
  const ended = { ...job, exitCode, message, collapsed };
  if (exitCode === 0) return { ...ended, state: 'done', message: null };
  if (failure === 'COLLAPSED') return { ...ended, state: 'done', collapsed: true };
  if (exitCode === INTERRUPTED && stopping) return { ...ended, state: 'waiting', message: null };
  if (exitCode === INTERRUPTED || exitCode === TRY_AGAIN || IN_USE.includes(failure)) {
    const turn = job.turn === 'alone' ? 'alone' : 'later';
    return { ...ended, state: 'waiting', turn, putOff: job.putOff + 1 };
  }
  const wantsMemory = failure === 'OUT_OF_MEMORY' || ending.killed;
  if (wantsMemory && stopping) return { ...ended, state: 'waiting' };
  if (wantsMemory && job.turn !== 'alone') return { ...ended, state: 'waiting', turn: 'alone' };
  return { ...ended, state: 'failed' };
}

const replaced = (jobs: readonly Job[], index: number, job: Job): Job[] =>
  jobs.map((other, i) => (i === index ? job : other));

/** Whether no run may start because too many have failed. */
const hasFailedEnough = ({ maxFailures, failures }: Schedule): boolean =>
  maxFailures !== null && failures >= maxFailures;

const isStartable = (job: Job): boolean => job.state === 'waiting' && job.putOff < MOST_PUT_OFF;

/** The runs that may start now, in order. */
function ready({ jobs, parallel }: Schedule): number[] {
  const running = jobs.filter(({ state }) => state === 'running');
  if (running.some(({ turn }) => turn === 'alone')) return [];
  const waiting = (turn: Job['turn']): number[] =>
    [...jobs.keys()].filter((i) => isStartable(jobs[i]!) && jobs[i]!.turn === turn);
  const free = parallel - running.length;
  const now = waiting('now');
  if (now.length > 0) return now.slice(0, free);
  // What was put off waits for those that are not: a server may come back meanwhile.
  if (running.some(({ turn }) => turn === 'now')) return [];
  const later = waiting('later');
  if (later.length > 0) return later.slice(0, free);
  return running.length === 0 ? waiting('alone').slice(0, 1) : [];
}

function withStarts(schedule: Schedule): { schedule: Schedule; starts: number[] } {
  if (schedule.stopping) return { schedule, starts: [] };
  if (hasFailedEnough(schedule)) {
    const jobs = schedule.jobs.map((job): Job =>
      job.state === 'waiting' ? { ...job, state: 'skipped', message: 'too many others have failed' } : job,
    );
    return { schedule: { ...schedule, jobs }, starts: [] };
  }
  const starts = ready(schedule);
  const jobs = schedule.jobs.map((job, i): Job =>
    starts.includes(i) ? { ...job, state: 'running', exitCode: null, message: null } : job,
  );
  return { schedule: { ...schedule, jobs }, starts };
}

/** The schedule after an event, and the jobs to start, by their index. */
export function advance(schedule: Schedule, event: SweepEvent): { schedule: Schedule; starts: number[] } {
  if (event.type === 'begin') return withStarts(schedule);
  if (event.type === 'stop') return { schedule: { ...schedule, stopping: true }, starts: [] };
  const job = after(schedule.jobs[event.job]!, event.ending, schedule.stopping);
  return withStarts({
    ...schedule,
    jobs: replaced(schedule.jobs, event.job, job),
    failures: schedule.failures + (job.state === 'failed' ? 1 : 0),
  });
}

/** Whether nothing runs and nothing will be started. */
export const isOver = ({ jobs }: Schedule): boolean => !jobs.some(({ state }) => state === 'running');

/** 0: all done; 1: some failed or were skipped; 75: some were put off; 130: stopped before the end. */
export function exitCodeOf({ jobs, stopping }: Schedule): 0 | 1 | 75 | 130 {
  const has = (...states: SweepRunState[]): boolean => jobs.some(({ state }) => states.includes(state));
  if (stopping && has('waiting')) return 130;
  if (has('failed', 'skipped')) return 1;
  return has('waiting') ? 75 : 0;
}
