/** The schedule of a sweep, without processes. */
import {
  advance,
  exitCodeOf,
  isOver,
  waitingJob,
  type Ending,
  type Schedule,
  type SweepEvent,
} from '../../src/sweep/schedule';
import { uniformStream } from '../../src/base/rng';

const ENDING: Ending = { exitCode: 0, killed: false, failure: null, message: null, collapsed: false };
const FAILED: Partial<Ending> = { exitCode: 1, failure: 'REWARD_FAILED', message: 'It threw.' };
const NO_MEMORY: Partial<Ending> = { exitCode: 1, failure: 'OUT_OF_MEMORY', message: 'No memory.' };
const NO_SERVER: Partial<Ending> = { exitCode: 75, failure: 'SAMPLER_LOST', message: 'No server.' };

/** A schedule that is driven by hand. */
class Driven {
  schedule: Schedule;
  starts: number[] = [];

  constructor(jobs: number, parallel: number, maxFailures: number | null = null) {
    this.schedule = {
      jobs: Array.from({ length: jobs }, waitingJob),
      parallel,
      maxFailures,
      failures: 0,
      stopping: false,
    };
    this.send({ type: 'begin' });
  }

  send(event: SweepEvent): number[] {
    ({ schedule: this.schedule, starts: this.starts } = advance(this.schedule, event));
    return this.starts;
  }

  /** What is started when a job has ended. */
  ends(job: number, ending: Partial<Ending> = {}): number[] {
    return this.send({ type: 'ended', job, ending: { ...ENDING, ...ending } });
  }

  get states(): string[] {
    return this.schedule.jobs.map(({ state }) => state);
  }

  get exitCode(): number {
    return exitCodeOf(this.schedule);
  }
}

test('runs start in order, as many at a time as may, and end with 0', () => {
  const sweep = new Driven(4, 2);
  expect(sweep.starts).toEqual([0, 1]);
  expect(sweep.ends(1)).toEqual([2]);
  expect(sweep.ends(0)).toEqual([3]);
  expect(sweep.ends(2)).toEqual([]);
  expect(isOver(sweep.schedule)).toBe(false);
  sweep.ends(3);
  expect(isOver(sweep.schedule)).toBe(true);
  expect(sweep.states).toEqual(['done', 'done', 'done', 'done']);
  expect(sweep.exitCode).toBe(0);
});

test('what is done already is not started', () => {
  const jobs = [{ ...waitingJob(), state: 'done' as const }, waitingJob()];
  const before: Schedule = { jobs, parallel: 1, maxFailures: null, failures: 0, stopping: false };
  const { schedule, starts } = advance(before, { type: 'begin' });
  expect(starts).toEqual([1]);
  expect(schedule.jobs[0]!.state).toBe('done');
});

test('nothing is left: over at once, exit 0', () => {
  const sweep = new Driven(0, 2);
  expect(isOver(sweep.schedule)).toBe(true);
  expect(sweep.exitCode).toBe(0);
});

test('a run that fails does not stop the others', () => {
  const sweep = new Driven(3, 1);
  expect(sweep.ends(0, FAILED)).toEqual([1]);
  expect(sweep.ends(1)).toEqual([2]);
  sweep.ends(2);
  expect(sweep.states).toEqual(['failed', 'done', 'done']);
  expect(sweep.schedule.jobs[0]).toMatchObject({ exitCode: 1, message: 'It threw.' });
  expect(sweep.exitCode).toBe(1);
});

test('a run that its guard has ended is done, as collapsed', () => {
  const sweep = new Driven(1, 1);
  sweep.ends(0, { exitCode: 1, failure: 'COLLAPSED', message: 'The run ended after step 9.' });
  expect(sweep.schedule.jobs[0]).toMatchObject({ state: 'done', collapsed: true, exitCode: 1 });
  expect(sweep.schedule.jobs[0]!.message).toBe('The run ended after step 9.');
  expect(sweep.exitCode).toBe(0);
});

test('a run that went on through a collapse is done, as collapsed', () => {
  const sweep = new Driven(1, 1);
  sweep.ends(0, { collapsed: true });
  expect(sweep.schedule.jobs[0]).toMatchObject({
    state: 'done',
    collapsed: true,
    exitCode: 0,
    message: null,
  });
});

test.each([
  ['its error', NO_MEMORY],
  ["the kernel's kill", { exitCode: 137, killed: true, message: 'it was killed by SIGKILL' }],
])('out of memory by %s: tried once more, alone, after all others', (_, ending) => {
  const sweep = new Driven(4, 2);
  expect(sweep.ends(0, ending)).toEqual([2]);
  expect(sweep.states[0]).toBe('waiting');
  expect(sweep.ends(1)).toEqual([3]);
  expect(sweep.ends(2)).toEqual([]);
  expect(sweep.ends(3)).toEqual([0]);
  // It fails the second time.
  expect(sweep.ends(0, ending)).toEqual([]);
  expect(sweep.states).toEqual(['failed', 'done', 'done', 'done']);
  expect(sweep.exitCode).toBe(1);
});

test('two that are tried alone are never beside each other', () => {
  const sweep = new Driven(2, 2);
  sweep.ends(0, NO_MEMORY);
  expect(sweep.ends(1, NO_MEMORY)).toEqual([0]);
  expect(sweep.ends(0)).toEqual([1]);
  sweep.ends(1);
  expect(sweep.exitCode).toBe(0);
});

test('no server: tried again after the others, three times, then left for a later --resume', () => {
  const sweep = new Driven(3, 1);
  expect(sweep.ends(0, NO_SERVER)).toEqual([1]);
  expect(sweep.ends(1)).toEqual([2]);
  expect(sweep.ends(2)).toEqual([0]);
  expect(sweep.ends(0, NO_SERVER)).toEqual([0]);
  expect(sweep.ends(0, NO_SERVER)).toEqual([]);
  expect(isOver(sweep.schedule)).toBe(true);
  expect(sweep.states).toEqual(['waiting', 'done', 'done']);
  expect(sweep.exitCode).toBe(75);
});

test('what was put off does not start while others run', () => {
  const sweep = new Driven(2, 2);
  expect(sweep.ends(0, NO_SERVER)).toEqual([]);
  expect(sweep.ends(1)).toEqual([0]);
});

test.each([
  ['stopped by somebody else', { exitCode: 130 }],
  ['in use by another process', { exitCode: 2, failure: 'RUN_LOCKED' }],
  ['made by another process meanwhile', { exitCode: 2, failure: 'RUN_EXISTS' }],
])('a run that was %s is put off', (_, ending) => {
  const sweep = new Driven(2, 1);
  expect(sweep.ends(0, ending)).toEqual([1]);
  expect(sweep.ends(1)).toEqual([0]);
  sweep.ends(0);
  expect(sweep.exitCode).toBe(0);
});

test('what is put off while it is tried alone stays alone', () => {
  const sweep = new Driven(2, 2);
  sweep.ends(0, NO_MEMORY);
  expect(sweep.ends(1)).toEqual([0]);
  expect(sweep.ends(0, NO_SERVER)).toEqual([0]);
  expect(sweep.schedule.jobs[0]!.turn).toBe('alone');
});

test('asked to stop: nothing starts, what was stopped waits, exit 130', () => {
  const sweep = new Driven(3, 2);
  expect(sweep.send({ type: 'stop' })).toEqual([]);
  expect(isOver(sweep.schedule)).toBe(false);
  expect(sweep.ends(0, { exitCode: 130, message: 'Interrupted.' })).toEqual([]);
  // It ended by itself in the same moment.
  sweep.ends(1);
  expect(isOver(sweep.schedule)).toBe(true);
  expect(sweep.states).toEqual(['waiting', 'done', 'waiting']);
  expect(sweep.schedule.jobs[0]!.message).toBeNull();
  expect(sweep.exitCode).toBe(130);
});

test('stopped when everything was done: exit 0', () => {
  const sweep = new Driven(1, 1);
  sweep.send({ type: 'stop' });
  sweep.ends(0);
  expect(sweep.exitCode).toBe(0);
});

test('a run that runs out of memory while the sweep stops waits', () => {
  const sweep = new Driven(1, 1);
  sweep.send({ type: 'stop' });
  sweep.ends(0, NO_MEMORY);
  expect(sweep.states).toEqual(['waiting']);
  expect(sweep.exitCode).toBe(130);
});

test('maxFailures stops new starts: what runs goes on, the others are skipped', () => {
  const sweep = new Driven(5, 2, 2);
  expect(sweep.ends(0, FAILED)).toEqual([2]);
  expect(sweep.ends(1, FAILED)).toEqual([]);
  expect(sweep.states).toEqual(['failed', 'failed', 'running', 'skipped', 'skipped']);
  sweep.ends(2);
  expect(sweep.states[2]).toBe('done');
  expect(sweep.schedule.jobs[3]!.message).toBe('too many others have failed');
  expect(sweep.exitCode).toBe(1);
});

test('a collapse and a second try are no failures for maxFailures', () => {
  const sweep = new Driven(4, 1, 1);
  sweep.ends(0, { exitCode: 1, failure: 'COLLAPSED' });
  sweep.ends(1, NO_MEMORY);
  expect(sweep.ends(2)).toEqual([3]);
  expect(sweep.ends(3)).toEqual([1]);
});

test('whatever happens, no run is lost, and never run more at a time than may', () => {
  const kinds: Partial<Ending>[] = [
    {},
    FAILED,
    NO_MEMORY,
    NO_SERVER,
    { exitCode: 130 },
    { exitCode: 2, failure: 'RUN_LOCKED' },
  ];
  for (let seed = 1n; seed <= 200n; seed++) {
    const random = uniformStream(seed);
    const parallel = 1 + Math.floor(random() * 3);
    const sweep = new Driven(6, parallel, random() < 0.3 ? 2 : null);
    const stopAt = Math.floor(random() * 40);
    for (let i = 0; !isOver(sweep.schedule); i++) {
      expect(i).toBeLessThan(40);
      if (i === stopAt) sweep.send({ type: 'stop' });
      const running = [...sweep.states.keys()].filter((job) => sweep.states[job] === 'running');
      expect(running.length).toBeLessThanOrEqual(parallel);
      if (running.some((job) => sweep.schedule.jobs[job]!.turn === 'alone')) expect(running).toHaveLength(1);
      sweep.ends(running[Math.floor(random() * running.length)]!, kinds[Math.floor(random() * kinds.length)]);
    }
    const stopped = sweep.schedule.stopping;
    for (const { state, putOff } of sweep.schedule.jobs)
      if (state === 'waiting') expect(stopped || putOff === 3).toBe(true);
      else expect(['done', 'failed', 'skipped']).toContain(state);
  }
});
