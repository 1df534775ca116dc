/** What the live page is told while runs grow, go back, resume, end, appear and vanish. */
import {
  appendFileSync,
  linkSync,
  mkdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { RunLock } from '../../src/run/lock';
import { startWatch, type WatchServer } from '../../src/watch';
import type { RunDetails, RunEntry, WireSeries } from '../../src/watch/wire';
import { builtCli } from '../helpers/cli';
import { WatchEvents } from '../helpers/watch-events';
import {
  appendLines,
  linesText,
  replaceLines,
  rollBack,
  watchedFolder,
  watchedLines,
  writeLock,
  writeRun,
} from '../helpers/watched-runs';

beforeAll(() => void builtCli());

const open: { close(): unknown }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

async function watch(path: string): Promise<WatchServer> {
  const server = await startWatch({ path, port: 0 });
  open.push(server);
  return server;
}

function follow(server: WatchServer, at = '', headers: Record<string, string> = {}): WatchEvents {
  const events = new WatchEvents(server.address, at, headers);
  open.push(events);
  return events;
}

async function get<T>(server: WatchServer, what: string): Promise<T> {
  const response = await fetch(server.address + what);
  expect(response.status).toBe(200);
  return (await response.json()) as T;
}

/** A run in a folder of its own, served, with its page open. */
async function openedRun(steps: number) {
  const path = join(watchedFolder(), 'run');
  writeRun(path, { steps, maxSteps: 100 });
  const server = await watch(path);
  const [entry] = await get<RunEntry[]>(server, 'runs');
  const { id } = entry!;
  const series = () => get<WireSeries>(server, `series?run=${id}`);
  const first = await series();
  const at = ({ epoch, lines }: WireSeries) => `${id}.${epoch}.${lines}`;
  return { path, server, id, series, at, first, events: follow(server, at(first)) };
}

test('a run served by itself is the only one listed', async () => {
  const { events, id } = await openedRun(3);
  const listed = await events.next('runs');
  expect(listed).toMatchObject({
    single: true,
    removed: [],
    changed: [{ id, name: 'run', step: 3, maxSteps: 100 }],
  });
});

test('lines that are appended arrive as columns; one that is being written waits for its end', async () => {
  const { path, events, first, series } = await openedRun(5);
  const [sixth, seventh] = watchedLines(6, 7, 100);
  const half = linesText([seventh!]);
  appendFileSync(join(path, 'metrics.jsonl'), linesText([sixth!]) + half.slice(0, 100));
  const lines = await events.next('lines');
  expect(lines).toMatchObject({ epoch: first.epoch, from: 5, lines: 6, steps: [6] });
  expect(lines.columns['thinking/mean']![0]).toBeCloseTo(sixth!['thinking/mean']!, 2);
  appendFileSync(join(path, 'metrics.jsonl'), half.slice(100));
  expect(await events.next('lines')).toMatchObject({ from: 6, steps: [7] });
  expect((await series()).latest.step).toBe(7);
});

test('a rollback makes the page fetch the run again, with the lines taken back and a mark', async () => {
  const { path, events, first, series, server, id } = await openedRun(40);
  expect(first.buckets.length).toBe(41);
  rollBack(path, 40, 20, 100);
  await events.next('reload');
  const after = await series();
  expect(after.epoch).not.toBe(first.epoch);
  expect([after.lines, after.latest.step]).toEqual([20, 20]);
  expect(after.discarded).toMatchObject([{ number: 1 }]);
  const taken = after.discarded[0]!.buckets.columns['thinking/mean']!.mean;
  expect(taken.filter((value) => value !== null)).toHaveLength(20);
  const { marks, log } = await get<RunDetails>(server, `details?run=${id}`);
  expect(marks).toEqual([
    { step: 20, kind: 'rollback', text: 'Rollback 1, from step 40 to 20. Accuracy fell from its peak.' },
  ]);
  expect(log).toEqual(expect.arrayContaining(marks));
});

test.each([
  ['replaced by a rename with as many bytes', (path: string) => replaceLines(path, watchedLines(1, 10, 100))],
  ['replaced by a longer one', (path: string) => replaceLines(path, watchedLines(1, 30, 100, 9))],
  [
    'cut',
    (path: string) =>
      truncateSync(join(path, 'metrics.jsonl'), readFileSync(join(path, 'metrics.jsonl')).indexOf('\n') + 1),
  ],
  [
    'written anew in place',
    (path: string) => writeFileSync(join(path, 'metrics.jsonl'), linesText(watchedLines(1, 12, 100, 9))),
  ],
  ['removed', (path: string) => rmSync(join(path, 'metrics.jsonl'))],
])('a file that is %s is read from its beginning', async (_, change) => {
  const { path, events, series, first } = await openedRun(10);
  change(path);
  await events.next('reload');
  const after = await series();
  expect(after.epoch).not.toBe(first.epoch);
  const kept = (() => {
    try {
      return readFileSync(join(path, 'metrics.jsonl'), 'utf8').split('\n').length - 1;
    } catch {
      return 0;
    }
  })();
  expect(after.lines).toBe(kept);
});

test('a page that was away gets what it missed, and the whole run if lines were taken back', async () => {
  const { path, server, events, at, first } = await openedRun(5);
  appendLines(path, watchedLines(6, 6, 100));
  await events.next('lines');
  const { lastId } = events;
  events.close();
  appendLines(path, watchedLines(7, 9, 100));
  // The browser's header goes before the address, which is as old as the page.
  const back = follow(server, at(first), { 'Last-Event-ID': lastId });
  expect(await back.next('lines')).toMatchObject({ from: 6, steps: [7, 8, 9] });
  back.close();
  replaceLines(path, watchedLines(1, 4, 100));
  await follow(server, at(first), { 'Last-Event-ID': back.lastId }).next('reload');
});

test('a damaged line is named in one sentence, and the rest is shown', async () => {
  const { path, events, series } = await openedRun(4);
  appendFileSync(join(path, 'metrics.jsonl'), 'what is this\n\u0000\u0000\n');
  appendLines(path, watchedLines(5, 5, 100));
  expect(await events.next('lines')).toMatchObject({ steps: [5] });
  const { details } = await events.next('details', ({ details: { problems } }) => problems.length > 0);
  expect(details.problems).toEqual([
    'metrics.jsonl line 5 is not a line of metrics; it and 1 more like it are left out.',
  ]);
  expect((await series()).lines).toBe(5);
});

test('a line without an end does not fill the memory, and is passed over', async () => {
  const { path, events } = await openedRun(4);
  const piece = 'x'.repeat(700_000);
  for (let i = 0; i < 5; i++) appendFileSync(join(path, 'metrics.jsonl'), piece);
  appendFileSync(join(path, 'metrics.jsonl'), '\n');
  appendLines(path, watchedLines(5, 5, 100));
  expect(await events.next('lines')).toMatchObject({ steps: [5] });
  const { details } = await events.next('details', ({ details: { problems } }) => problems.length > 0);
  expect(details.problems[0]).toMatch(/^metrics\.jsonl line 5 is not a line of metrics; it is left out\.$/);
});

test.each([
  ['rollbacks.json', '{"no": "list"}', /rollbacks\.json is not a list of rollbacks/],
  ['rollbacks.json', '[{"numb', /Cannot read .*rollbacks\.json/],
  ['config.json', '{"max', /Cannot read .*config\.json/],
])('a damaged %s is named, and the server goes on', async (file, text, message) => {
  const { path, server, events } = await openedRun(4);
  writeFileSync(join(path, file), text);
  const { changed } = await events.next('runs', (runs) => runs.changed[0]?.problem !== null);
  expect(changed[0]!.problem).toMatch(message);
  appendLines(path, watchedLines(5, 5, 100));
  expect(await events.next('lines')).toMatchObject({ steps: [5] });
  expect((await get<RunEntry[]>(server, 'runs'))[0]!.step).toBeGreaterThan(0);
});

test('a run is running, killed, stopped and finished in turn', async () => {
  const { path, events } = await openedRun(10);
  const state = async (wanted: string) =>
    (await events.next('runs', ({ changed }) => changed[0]?.state === wanted)).changed[0]!;
  expect((await state('stopped')).leftMs).toBeNull();
  const lock = RunLock.acquire(path);
  // 90 steps of half a second are left.
  expect((await state('running')).leftMs).toBe(45_000);
  lock.release();
  writeLock(path, 999_999_999);
  await state('killed');
  rmSync(join(path, 'lock.json'));
  writeFileSync(join(path, 'summary.json'), JSON.stringify({ run: { steps: 100 } }));
  await state('finished');
});

test('progress of a running run is passed on; without a lock it is what a dead run left', async () => {
  const { path, events } = await openedRun(10);
  const sequences = [{ problemId: '<b>p1</b>', prompt: 0, sample: 2, tokens: 17 }];
  const progress = {
    updatedAt: new Date().toISOString(),
    kind: null,
    pid: process.pid,
    phase: 'generate',
    step: 11,
  };
  const counts = { maxSteps: 100, done: 3, total: 8, tokens: 170, tokensPerSecond: 55.5 };
  const lock = RunLock.acquire(path);
  writeFileSync(join(path, 'progress.json'), JSON.stringify({ ...progress, ...counts, sequences }));
  const told = await events.next('progress', (data) => data.progress !== null);
  expect(told.progress).toMatchObject({ phase: 'generate', step: 11, done: 3, total: 8, sequences });
  writeFileSync(join(path, 'progress.json'), '{"phase":');
  await events.next('progress', (data) => data.progress === null);
  lock.release();
});

test('runs that appear are listed, and those that vanish are not', async () => {
  const root = watchedFolder();
  const server = await watch(root);
  const events = follow(server);
  expect(await events.next('runs')).toMatchObject({ single: false, changed: [], removed: [] });
  mkdirSync(join(root, 'no run'));
  writeRun(join(root, 'first'), { steps: 2 });
  const { changed } = await events.next('runs');
  expect(changed.map(({ name }) => name)).toEqual(['first']);
  rmSync(join(root, 'first'), { recursive: true });
  expect(await events.next('runs')).toMatchObject({ changed: [], removed: [changed[0]!.id] });
});

test('the end of the server is announced', async () => {
  const path = join(watchedFolder(), 'run');
  writeRun(path, { steps: 2 });
  const server = await startWatch({ path, port: 0 });
  const events = follow(server);
  await events.next('runs');
  const bye = events.next('bye');
  await server.close();
  expect(await bye).toEqual({});
});

test('the list of 50 runs of 5,000 steps is made of parts of their files', async () => {
  const root = watchedFolder();
  writeRun(join(root, 'run-00'), { steps: 5_000, maxSteps: 5_000 });
  for (let i = 1; i < 50; i++) {
    const path = join(root, `run-${String(i).padStart(2, '0')}`);
    writeRun(path, { steps: 1, maxSteps: 5_000 });
    rmSync(join(path, 'metrics.jsonl'));
    linkSync(join(root, 'run-00', 'metrics.jsonl'), join(path, 'metrics.jsonl'));
  }
  const server = await watch(root);
  const before = process.cpuUsage();
  const runs = await get<RunEntry[]>(server, 'runs');
  const { user, system } = process.cpuUsage(before);
  expect(runs).toHaveLength(50);
  for (const { step, course, thinking } of runs) {
    expect(step).toBe(5_000);
    expect(course.length).toBeGreaterThan(15);
    expect(thinking!.now).toBeLessThan(0.6 * thinking!.before);
  }
  // In microseconds of processor time: parsing all of their 500 MB takes more than 10 s.
  expect(user + system).toBeLessThan(4e6);
  const series = await get<WireSeries>(server, `series?run=${runs[0]!.id}`);
  expect(series.lines).toBe(5_000);
  expect(series.buckets.length).toBeLessThanOrEqual(640);
  const part = await get<WireSeries>(server, `series?run=${runs[0]!.id}&from=1000&to=1099`);
  expect(part.buckets).toMatchObject({ width: 1, start: 1_000, length: 100 });
});

describe('files larger than any run has', () => {
  test.each([100_000_000, Number.MAX_SAFE_INTEGER])(
    'a line taken back at step %d does not grow the figures',
    async (step) => {
      const { path, server, id, series } = await openedRun(60);
      rollBack(path, 60, 40, 100);
      appendFileSync(join(path, 'rolled-back-1.jsonl'), linesText([{ step, 'thinking/mean': 1 }]));
      const { buckets, discarded } = await series();
      expect(buckets.length).toBeLessThanOrEqual(640);
      expect(discarded[0]!.buckets.length).toBeLessThanOrEqual(640);
      expect((await get<RunDetails>(server, `details?run=${id}`)).problems).toEqual([]);
    },
  );

  test('lines that were taken back beyond the present last step are in the figures', async () => {
    const { path, series } = await openedRun(900);
    rollBack(path, 900, 40, 1000);
    const { buckets, discarded } = await series();
    const taken = discarded[0]!.buckets;
    expect(taken.width).toBe(buckets.width);
    expect((taken.start + taken.length) * taken.width).toBeGreaterThan(900);
  });

  test('a monitor that changes at every step makes a bounded number of marks', async () => {
    const { path, server, id } = await openedRun(3);
    const lines = Array.from({ length: 5_000 }, (_, i) => ({ step: 4 + i, 'monitor/state': i % 2 }));
    appendFileSync(join(path, 'metrics.jsonl'), linesText(lines));
    const { marks, log } = await get<RunDetails>(server, `details?run=${id}`);
    expect(marks.length).toBeLessThanOrEqual(500);
    expect(log.length).toBeLessThanOrEqual(300);
  });

  test('more lines than any run has are left out, which is said', async () => {
    const { path, server, id, series } = await openedRun(3);
    appendFileSync(join(path, 'metrics.jsonl'), '{"step":4}\n'.repeat(100_100));
    expect((await series()).lines).toBe(100_000);
    const { problems } = await get<RunDetails>(server, `details?run=${id}`);
    expect(problems).toEqual(['metrics.jsonl has more than 100,000 lines; the page shows the first ones.']);
  });

  test('a sparse file of 20 GB and settings of 20 MB are not read', async () => {
    const { path, server, id } = await openedRun(3);
    truncateSync(join(path, 'metrics.jsonl'), 20e9);
    const { problems } = await get<RunDetails>(server, `details?run=${id}`);
    expect(problems).toEqual(['metrics.jsonl has more than 512 MB; the page does not read it.']);
    truncateSync(join(path, 'config.json'), 20e6);
    const events = follow(server);
    const { changed } = await events.next('runs', (list) => list.changed[0]?.problem !== null);
    expect(changed[0]!.problem).toMatch(/has more than 16 MB; it is not read\.$/);
    // Whoever asks for the run's state reads its settings, too.
    truncateSync(join(path, 'config.json'), 300e6);
    const bytes = process.memoryUsage().rss;
    await get<RunDetails>(server, `details?run=${id}`);
    expect(process.memoryUsage().rss - bytes).toBeLessThan(150e6);
  });
});
