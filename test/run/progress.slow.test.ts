/** progress.json: what is written, how often, and what is read when something else has its name. */
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import * as promises from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate, setTimeout as wait } from 'node:timers/promises';
import { processorMs } from '../../src/base/deadline';
import {
  createRunDirectory,
  ProgressFile,
  readProgress,
  RunDirectory,
  type CurrentProgress,
  type RunProgress,
} from '../../src/run';

jest.mock('node:fs/promises', () => {
  const real = jest.requireActual<typeof promises>('node:fs/promises');
  return { ...real, writeFile: jest.fn(real.writeFile) };
});
const writeFile = jest.mocked(promises.writeFile);

/** Time passes by `pass` alone, so that a busy machine makes nothing late. */
const stopClock = () =>
  jest.useFakeTimers({ doNotFake: ['Date', 'hrtime', 'nextTick', 'queueMicrotask', 'setImmediate'] });
afterEach(() => jest.useRealTimers());

/** No write that has begun is under way. */
async function written(of: ProgressFile): Promise<void> {
  while (of['isWriting']) await setImmediate();
}

async function pass(ms: number): Promise<void> {
  jest.advanceTimersByTime(ms);
  await written(file);
}

const root = mkdtempSync(join(tmpdir(), 'acoer-progress-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let folders = 0;
let warnings: string[];
let path: string;
let file: ProgressFile;

beforeEach(() => {
  writeFile.mockClear();
  warnings = [];
  path = join(root, `run-${folders++}`);
  mkdirSync(path);
  file = new ProgressFile(new RunDirectory(path), (message) => warnings.push(message));
});

const state = (changes: Partial<CurrentProgress> = {}): CurrentProgress => ({
  phase: 'generate',
  step: 3,
  maxSteps: 10,
  kind: null,
  done: 1,
  total: 4,
  tokens: 120,
  tokensPerSecond: 33.5,
  sequences: [{ problemId: 'a', prompt: 5, sample: 0, tokens: 60 }],
  ...changes,
});
const sequence = (tokens: number) => ({ problemId: 'x'.repeat(300), prompt: 0, sample: tokens, tokens });

test('what is shown is read back, with the time and the process', async () => {
  const before = Date.now();
  await file.end(state());
  const read = readProgress(path)!;
  expect(read).toEqual({ ...state(), updatedAt: read.updatedAt, pid: process.pid });
  expect(Date.parse(read.updatedAt)).toBeGreaterThanOrEqual(before);
  expect(readdirSync(path)).toEqual(['progress.json']);
});

test('long lists and names are cut, and what is written is always read', async () => {
  await file.end(state({ sequences: Array.from({ length: 300 }, (_, i) => sequence(i)) }));
  const { sequences } = readProgress(path)!;
  expect(sequences).toHaveLength(256);
  expect(sequences[255]).toEqual({ ...sequence(255), problemId: 'x'.repeat(200) });
  await new ProgressFile(new RunDirectory(path), (message) => warnings.push(message)).end(
    state({ sequences: [{ ...sequence(1), problemId: '\u001b[31m<script>\ud83d' }] }),
  );
  expect(readFileSync(join(path, 'progress.json'), 'utf8')).not.toContain('\u001b');
  expect(readProgress(path)!.sequences[0]!.problemId).toBe('\u001b[31m<script>\ud83d');
  expect(warnings).toEqual([]);
});

test('a thousand states in a moment are written once, the newest a second later, a phase sooner', async () => {
  stopClock();
  for (let tokens = 0; tokens < 1_000; tokens++) file.show(state({ tokens }), false);
  await pass(60);
  expect(writeFile).toHaveBeenCalledTimes(1);
  expect(readProgress(path)!.tokens).toBe(0);
  await pass(500);
  expect(writeFile).toHaveBeenCalledTimes(1);
  for (const phase of ['reward', 'score', 'train'] as const) file.show(state({ phase }), true);
  await pass(60);
  expect(readProgress(path)!.phase).toBe('reward');
  await pass(200);
  expect(writeFile).toHaveBeenCalledTimes(3);
  expect(readProgress(path)!.phase).toBe('train');
  file.show(state({ tokens: 7 }), false);
  await pass(1_100);
  expect(readProgress(path)!.tokens).toBe(7);
  expect(writeFile).toHaveBeenCalledTimes(4);
});

test('nobody waits for a disk that does not answer, and at most one write waits for it', async () => {
  stopClock();
  writeFile.mockImplementationOnce(() => new Promise(() => undefined));
  const [begun, begunProcessorMs] = [Date.now(), processorMs()];
  for (let i = 0; i < 100; i++) file.show(state(), true);
  expect(processorMs() - begunProcessorMs).toBeLessThan(50);
  jest.advanceTimersByTime(3_000);
  expect(writeFile).toHaveBeenCalledTimes(1);
  await file.end(state({ phase: 'finished' }));
  expect(Date.now() - begun).toBeLessThan(3_000);
  expect(writeFile).toHaveBeenCalledTimes(1);
});

test('a slow write is never overtaken: the end is what stays', async () => {
  const { writeFile: real } = jest.requireActual<typeof promises>('node:fs/promises');
  writeFile.mockImplementationOnce(async (...given) => {
    await wait(200);
    await real(...given);
  });
  file.show(state(), true);
  await file.end(state({ phase: 'finished' }));
  file.show(state({ phase: 'train' }), true);
  await wait(200);
  expect(readProgress(path)!.phase).toBe('finished');
});

test.each(['ENOSPC', 'EROFS', 'EACCES', 'EIO'])('%s: one warning, and written again later', async (code) => {
  const error = Object.assign(new Error(`${code}: no`), { code });
  writeFile.mockRejectedValueOnce(error).mockRejectedValueOnce(error);
  stopClock();
  for (let i = 0; i < 2; i++) {
    file.show(state(), true);
    await pass(130);
  }
  expect(warnings).toEqual([
    `${join(path, 'progress.json')} cannot be written (${code}: no), so it may be out of date; the run goes on.`,
  ]);
  await file.end(state({ phase: 'train' }));
  expect(readProgress(path)!.phase).toBe('train');
  expect(warnings).toHaveLength(1);
  expect(readdirSync(path)).toEqual(['progress.json']);
});

test('a listener that throws at the warning ends nothing', async () => {
  const thrown: unknown[] = [];
  const note = (error: unknown) => thrown.push(error);
  process.on('unhandledRejection', note);
  writeFile.mockRejectedValueOnce(new Error('no'));
  const own = new ProgressFile(new RunDirectory(path), () => {
    throw new Error('from the listener');
  });
  own.show(state(), true);
  await written(own);
  await own.end(state({ phase: 'failed' }));
  process.off('unhandledRejection', note);
  expect(thrown).toEqual([]);
  expect(readProgress(path)!.phase).toBe('failed');
});

test('a folder that is gone is not made again', async () => {
  rmSync(path, { recursive: true });
  await file.end(state());
  expect(existsSync(path)).toBe(false);
  expect(warnings).toHaveLength(1);
});

test('nothing is written into a run that another process has taken over', async () => {
  const taken = join(root, 'taken');
  const run = createRunDirectory(taken, {});
  const own = new ProgressFile(run, (message) => warnings.push(message));
  own.show(state(), true);
  while (readProgress(taken)?.phase !== 'generate') await wait(10);
  writeFileSync(join(taken, 'lock.json'), '{}');
  await own.end(state({ phase: 'finished' }));
  expect(readProgress(taken)!.phase).toBe('generate');
  expect(warnings).toEqual([]);
});

test('null ends it without a word', async () => {
  file.show(state(), true);
  await file.end(null);
  const before = writeFile.mock.calls.length;
  file.show(state(), true);
  await wait(150);
  expect(writeFile).toHaveBeenCalledTimes(before);
});

test('null while a write waits for the lock ends it without a word as well', async () => {
  const lock = { isHeld: () => wait(50).then(() => true) } as RunDirectory['lock'];
  const waiting = new ProgressFile(new RunDirectory(path, lock), (message) => warnings.push(message));
  waiting.show(state(), true);
  await wait(20);
  await waiting.end(null);
  expect(warnings).toEqual([]);
});

describe('reading', () => {
  const whole: RunProgress = { ...state(), sequences: [], updatedAt: '2026-11-23T00:00:00.000Z', pid: 7 };
  const read = (text: string) => {
    writeFileSync(join(path, 'progress.json'), text);
    return readProgress(path);
  };

  test('gives what is right', () => {
    expect(read(JSON.stringify(whole))).toEqual(whole);
    expect(read(JSON.stringify({ ...whole, done: null, total: null, tokens: null }))).not.toBeNull();
  });

  test.each<[string, string]>([
    ['nothing', ''],
    ['a torn file', JSON.stringify(whole).slice(0, 100)],
    ['bytes', '\u0000\u0001'],
    ['another object', '{"progress": 0.5}'],
    ['null', 'null'],
    ['a list', '[]'],
    ['a phase that does not exist', JSON.stringify({ ...whole, phase: 'thinking' })],
    ['text for a number', JSON.stringify({ ...whole, step: '3' })],
    ['a negative count', JSON.stringify({ ...whole, tokens: -1 })],
    ['half a step', JSON.stringify({ ...whole, step: 1.5 })],
    ['no time', JSON.stringify({ ...whole, updatedAt: 'yesterday' })],
    ['too many sequences', JSON.stringify({ ...whole, sequences: Array(257).fill(sequence(1)) })],
    ['a megabyte', JSON.stringify({ ...whole, more: 'x'.repeat(1_000_001) })],
  ])('%s gives null', (_name, text) => {
    expect(read(text)).toBeNull();
  });

  test('a folder, a pipe or nothing under the name gives null', () => {
    expect(readProgress(join(root, 'nowhere'))).toBeNull();
    expect(readProgress(path)).toBeNull();
    mkdirSync(join(path, 'progress.json'));
    expect(readProgress(path)).toBeNull();
    rmSync(join(path, 'progress.json'), { recursive: true });
    execFileSync('mkfifo', [join(path, 'progress.json')]);
    expect(readProgress(path)).toBeNull();
  });
});
