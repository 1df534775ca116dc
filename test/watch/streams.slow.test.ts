/** Pages that read slowly, or not at all. */
import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { RunLock } from '../../src/run/lock';
import { Runs } from '../../src/watch/runs';
import { RunOverview } from '../../src/watch/overview';
import { parsePositions, Streams } from '../../src/watch/streams';
import { appendLines, watchedFolder, watchedLines, writeRun } from '../helpers/watched-runs';

/** A page whose socket is full for as long as the test says. */
class SlowPage extends EventEmitter {
  writableNeedDrain = false;
  destroyed = false;
  readonly written: string[] = [];

  write(text: string): boolean {
    this.written.push(text);
    return !this.writableNeedDrain;
  }

  end(): void {
    this.emit('close');
  }

  destroy(): void {
    this.destroyed = true;
    this.emit('close');
  }

  read(): void {
    this.writableNeedDrain = false;
    this.emit('drain');
  }

  get text(): string {
    return this.written.join('');
  }
}

/** Waits until it is so. */
async function until(so: () => boolean, what: string): Promise<void> {
  const end = performance.now() + 10_000;
  while (!so()) {
    if (performance.now() > end) throw new Error(`not within 10 s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const closing: Streams[] = [];
afterEach(async () => {
  jest.restoreAllMocks();
  for (const streams of closing.splice(0)) await streams.close();
});

async function slowPage() {
  const path = join(watchedFolder(), 'run');
  writeRun(path, { steps: 3, maxSteps: 9_000 });
  const runs = new Runs(path);
  const streams = new Streams(runs);
  closing.push(streams);
  await streams.fresh();
  const id = runs.ids[0]!;
  const run = (await runs.open(id))!;
  const { epoch, lines } = run.series.position;
  const page = new SlowPage();
  streams.add(page as unknown as ServerResponse, parsePositions(`${id}.${epoch}.${lines}`)!);
  await until(() => page.text.includes('event: details'), 'the first events');
  return { path, page, run };
}

test('a page that cannot take more is sent nothing, and then only what it lacks', async () => {
  const { path, page, run } = await slowPage();
  page.writableNeedDrain = true;
  const before = page.written.length;
  appendLines(path, watchedLines(4, 5, 9_000));
  await until(() => run.series.position.lines === 5, 'the lines are read');
  appendLines(path, watchedLines(6, 6, 9_000));
  await until(() => run.series.position.lines === 6, 'the line is read');
  expect(page.written.length).toBe(before);
  page.read();
  await until(() => page.text.includes('event: lines'), 'the lines are sent');
  expect(page.text).toContain('"steps":[4,5,6]');
});

test('a page that lacks too much fetches the run again', async () => {
  const { path, page, run } = await slowPage();
  page.writableNeedDrain = true;
  appendLines(path, watchedLines(4, 2_100, 9_000));
  await until(() => run.series.position.lines === 2_100, 'the lines are read');
  page.read();
  await until(() => page.text.includes('event: reload'), 'a reload');
  expect(page.text).not.toContain('event: lines');
});

test('a page that reads nothing for a minute is dropped', async () => {
  const { page } = await slowPage();
  page.writableNeedDrain = true;
  const now = Date.now();
  jest.spyOn(Date, 'now').mockImplementation(() => now + 50_000);
  await new Promise((resolve) => setTimeout(resolve, 700));
  expect(page.destroyed).toBe(false);
  jest.spyOn(Date, 'now').mockImplementation(() => now + 70_000);
  await until(() => page.destroyed, 'the page is dropped');
});

test('a page that reads hears something at least every 15 seconds', async () => {
  const { page } = await slowPage();
  expect(page.text).not.toContain('event: beat');
  const now = Date.now();
  jest.spyOn(Date, 'now').mockImplementation(() => now + 16_000);
  await until(() => page.text.includes('event: beat'), 'a beat');
});

test.each([['x'], ['0123456789abcdef'], ['0123456789abcdef.aaaaaaaaaaaa.-1'], ['../a.aaaaaaaaaaaa.1']])(
  'the position %j is none',
  (text) => {
    expect(parsePositions(text)).toBeNull();
  },
);

test('a page follows at most eight runs', () => {
  const one = '0123456789abcdef.aaaaaaaaaaaa.1';
  expect(parsePositions('')).toEqual(new Map());
  expect(parsePositions(one)).toEqual(new Map([['0123456789abcdef', { epoch: 'aaaaaaaaaaaa', lines: 1 }]]));
  expect(parsePositions(Array.from({ length: 9 }, () => one).join(','))).toBeNull();
});

test('the last list is read after the end was asked for, even while another is being read', async () => {
  const { path, page } = await slowPage();
  const lock = RunLock.acquire(path);
  const spied = jest.spyOn(RunOverview.prototype, 'refresh');
  let reading = false;
  spied.mockImplementationOnce(async function (this: RunOverview, pace) {
    const entry = await this.refresh(pace);
    reading = true;
    await new Promise((resolve) => setTimeout(resolve, 300));
    return entry;
  });
  await until(() => reading, 'the list is being read');
  lock.release();
  await closing[0]!.close();
  expect(page.text).toMatch(/"state":"running"[^]*"state":"stopped"[^]*event: bye/);
});
