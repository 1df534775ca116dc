/** User sinks: what they are given, also after a resume or a rollback, and what happens to one that fails. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readMetrics } from '../../src/run';
import { train, type Sink, type TrainEvent } from '../../src/train';
import { FakeEngine } from '../helpers/fake-engine';
import { fakeDataset, fakeTokenizer } from '../helpers/fake-tokenizer';
import { asCall, type Given } from '../helpers/given';

const root = mkdtempSync(join(tmpdir(), 'acoer-sinks-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let runs = 0;

const options = (changes: Given = {}): Given & { out: string } => ({
  model: 'tiny',
  out: join(root, `run-${runs++}`),
  maxSteps: 4,
  saveSteps: 2,
  maxCompletionLength: 40,
  evalProblems: 0,
  evalSampledProblems: 0,
  completionsSteps: 2,
  engine: new FakeEngine(),
  tokenizer: fakeTokenizer,
  trainData: fakeDataset(30),
  ...changes,
});

/** A sink that records every call. */
function noting(): { sink: Sink; calls: string[] } {
  const calls: string[] = [];
  return {
    calls,
    sink: {
      rewind: (step) => void calls.push(`rewind ${step}`),
      step: (metrics) => void calls.push(`step ${metrics.step}`),
      completions: (step, rows) => void calls.push(`completions ${step}: ${rows.length}`),
      event: (event) => void (event.type === 'checkpoint' && calls.push(`event ${event.type} ${event.step}`)),
      flush: () => void calls.push('flush'),
      close: () => void calls.push('close'),
    },
  };
}

test('a sink gets every step once and completions when due, and is flushed before each checkpoint', async () => {
  const { sink, calls } = noting();
  await (await train(...asCall(options({ sinks: [sink] })))).result();
  expect(calls.filter((call) => /^step/.test(call))).toEqual(['step 1', 'step 2', 'step 3', 'step 4']);
  expect(calls[0]).toBe('rewind 0');
  expect(calls.filter((call) => /^completions/.test(call))).toEqual([
    expect.stringMatching(/^completions 2: \d+$/),
    expect.stringMatching(/^completions 4: \d+$/),
  ]);
  expect(calls.indexOf('flush')).toBeLessThan(calls.indexOf('event checkpoint 2'));
  expect(calls.at(-1)).toBe('close');
});

test('a resumed run rewinds to its checkpoint and gives the steps after it again', async () => {
  const given = options({ sinks: [], maxSteps: 4 });
  const first = await train(...asCall(given));
  for (let i = 0; i < 3; i++) await first.next();
  await first.return();
  const { sink, calls } = noting();
  const { engine: _, out, maxSteps: __, ...rest } = given;
  await (await train({}, { resume: out, ...parts(rest), sinks: [sink] })).result();
  expect(calls[0]).toBe('rewind 3');
  expect(calls.filter((call) => /^step/.test(call))).toEqual(['step 4']);
});

const parts = ({ tokenizer, trainData }: Given) => ({
  engine: new FakeEngine(),
  ...(tokenizer && { tokenizer }),
  ...(trainData && { trainData }),
});

test('a sink that fails is reported once and gets nothing more, and the run continues', async () => {
  const warnings: string[] = [];
  const onEvent = (event: TrainEvent) => void (event.type === 'warning' && warnings.push(event.message));
  let steps = 0;
  const failing: Sink = {
    step: () => {
      steps++;
      throw new Error('no connection');
    },
  };
  const { sink, calls } = noting();
  const given = options({ sinks: [failing, sink], onEvent });
  await (await train(...asCall(given))).result();
  expect(steps).toBe(1);
  expect(warnings.filter((message) => message.includes('no connection'))).toEqual([
    'Sink 1 of train() failed at step and gets nothing more: no connection',
  ]);
  expect(calls.filter((call) => /^step/.test(call))).toHaveLength(4);
  expect(readMetrics(join(given.out, 'metrics.jsonl'))).toHaveLength(4);
});

test('csv: true writes metrics.csv, also right after a resume', async () => {
  const given = options({ csv: true, maxSteps: 5 });
  const first = await train(...asCall(given));
  for (let i = 0; i < 3; i++) await first.next();
  await first.return();
  const { tokenizer, trainData } = given;
  await (await train({}, { resume: given.out, ...parts({ tokenizer, trainData }) })).result();
  const [header, ...rows] = readFileSync(join(given.out, 'metrics.csv'), 'utf8').trim().split('\n');
  const lines = readMetrics(join(given.out, 'metrics.jsonl'));
  const reward = header!.split(',').indexOf('reward');
  expect(rows.map((row) => Number(row.split(',')[reward]))).toEqual(lines.map((line) => line.reward));
  expect(rows).toHaveLength(5);
});

test('sinks are closed when a later one, or the model, cannot be opened', async () => {
  const { sink, calls } = noting();
  await expect(train(...asCall(options({ sinks: [sink, join(root, 'absent.mjs')] })))).rejects.toThrow(
    'absent.mjs',
  );
  expect(calls).toEqual(['close']);
  const broken = noting();
  const engine = new FakeEngine();
  engine.loadModel = () => Promise.reject(new Error('no such weights'));
  await expect(train(...asCall(options({ sinks: [broken.sink], engine })))).rejects.toThrow(
    'no such weights',
  );
  expect(broken.calls).toEqual(['close']);
});
