/** A run on data from files and from the hub: several epochs, filters, exact resumption, pinned commits. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { train, type TrainEvent } from '../../src/train';
import { readMetrics } from '../../src/run';
import { acoer } from '../helpers/cli';
import { FakeEngine } from '../helpers/fake-engine';
import { fakeTokenizer } from '../helpers/fake-tokenizer';
import { hubForTests } from '../helpers/hub';
import { asCall, type Given } from '../helpers/given';

const root = mkdtempSync(join(tmpdir(), 'acoer-data-run-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let runs = 0;

/** Seven usable problems, which 12 steps of 8 prompts go through 13 times, and one with a bad gold answer. */
const row = (i: number) => ({ problem: `say ${i}`, answer: i === 6 ? '(((' : String(i), level: 1 + (i % 2) });
const text = (rows: readonly object[]) => rows.map((one) => `${JSON.stringify(one)}\n`).join('');
const ROWS = Array.from({ length: 8 }, (_, i) => row(i));

function options(dataset: string, more: Given = {}) {
  return {
    dataset,
    engine: new FakeEngine({}),
    tokenizer: fakeTokenizer,
    maxSteps: 12,
    maxCompletionLength: 40,
    learningRate: 100,
    evalProblems: 0,
    evalSampledProblems: 0,
    saveSteps: 5,
    out: join(root, `run-${runs++}`),
    ...more,
  };
}

const resuming = (folder: string) => ({
  resume: folder,
  engine: new FakeEngine({}),
  tokenizer: fakeTokenizer,
});

const metricsOf = (folder: string) =>
  readMetrics(join(folder, 'metrics.jsonl')).map((line) =>
    Object.fromEntries(Object.entries(line).filter(([name]) => !/^(step_time$|time\/|memory\/)/.test(name))),
  );

function dataFile(rows: readonly object[] = ROWS): string {
  const path = join(root, `data-${runs++}.jsonl`);
  writeFileSync(path, text(rows));
  return path;
}

async function stopAfter(step: number, given: ReturnType<typeof options>): Promise<void> {
  for await (const { index } of await train(...asCall(given))) if (index === step) break;
}

test('a run over several epochs of filtered data resumes exactly where it stopped', async () => {
  const settings = { maxPromptLength: 60, promptTemplate: '{problem}', levels: ['1', '2'] };
  const dataset = dataFile();
  const whole = options(dataset, settings);
  const warnings: string[] = [];
  const onEvent = (event: TrainEvent) => event.type === 'warning' && warnings.push(event.message);
  await (await train(...asCall({ ...whole, onEvent: (event) => void onEvent(event) }))).result();
  expect(warnings).toEqual([
    `${dataset}: of 8 rows, left out: 1 whose gold answer the verifier cannot read (${dataset} line 7).`,
  ]);
  const stopped = options(dataset, settings);
  await stopAfter(7, stopped);
  await (await train(...asCall(resuming(stopped.out)))).result();
  expect(metricsOf(stopped.out)).toEqual(metricsOf(whole.out));
  expect(metricsOf(whole.out).at(-1)!.epoch).toBeGreaterThan(10);
});

test('a run whose data has changed is not resumed', async () => {
  const dataset = dataFile();
  const stopped = options(dataset);
  await stopAfter(7, stopped);
  writeFileSync(dataset, text([...ROWS.slice(0, 3), { ...row(3), answer: '9' }, ...ROWS.slice(4)]));
  await expect(train(...asCall(resuming(stopped.out)))).rejects.toMatchObject({
    code: 'BAD_INPUT',
    message: expect.stringContaining('no longer holds the problems this run began with'),
  });
  writeFileSync(dataset, text(ROWS));
  await (await train(...asCall(resuming(stopped.out)))).result();
  expect(metricsOf(stopped.out)).toHaveLength(12);
});

describe('on the hub', () => {
  const { hub } = hubForTests();

  test('the commit is stored with the run, and resuming uses it after the hub has moved on', async () => {
    hub().add('datasets/acoer-test/digits', { 'train.jsonl': text(ROWS) });
    const whole = options('acoer-test/digits');
    await (await train(...asCall(whole))).result();
    const stopped = options('acoer-test/digits');
    await stopAfter(7, stopped);
    hub().add('datasets/acoer-test/digits', { 'train.jsonl': text(ROWS.slice(0, 2)) });
    const config = JSON.parse(readFileSync(join(stopped.out, 'config.json'), 'utf8')) as { dataset: string };
    expect(config.dataset).toMatch(/^acoer-test\/digits@[0-9a-f]{40}$/);
    await (await train(...asCall(resuming(stopped.out)))).result();
    expect(metricsOf(stopped.out)).toEqual(metricsOf(whole.out));
  });

  test('some of a single split is held out; when there is too little, nothing is written', async () => {
    const rows = Array.from({ length: 40 }, (_, i) => ({
      problem: `${i}: say ${i % 6}`,
      answer: `${i % 6}`,
    }));
    hub().add('datasets/acoer-test/digits', { 'train.jsonl': text(rows) });
    const given = options('acoer-test/digits', { evalProblems: 500, maxSteps: 2 });
    const warnings: string[] = [];
    const onEvent = (event: TrainEvent) => void (event.type === 'warning' && warnings.push(event.message));
    const summary = await (await train(...asCall({ ...given, onEvent }))).result();
    expect(warnings).toEqual([
      'acoer-test/digits names no evaluation set: held out 8 of 40 problems (20%) for evaluation; they are never trained on.',
    ]);
    expect(summary.base.greedy!.n).toBe(8);
    hub().add('datasets/acoer-test/few', { 'train.jsonl': text(ROWS) });
    const few = options('acoer-test/few', { evalProblems: 5 });
    await expect(train(...asCall(few))).rejects.toMatchObject({
      code: 'BAD_CONFIG',
      message: expect.stringContaining('its 7 problems are too few to hold some out') as string,
    });
    expect(existsSync(few.out)).toBe(false);
  });
});

test('a resumed run holds out the same problems, also from data in memory', async () => {
  const rows = Array.from({ length: 40 }, (_, i) => ({ problem: `${i}: say ${i % 6}`, answer: `${i % 6}` }));
  const dataset = dataFile(rows);
  const problems = rows.map(({ problem, answer }, i) => ({
    id: `${i}`,
    question: problem,
    gold: answer,
    level: null,
  }));
  const trainData = { name: 'memory', size: 40, get: (index: number) => problems[index]! };
  const [file, memory] = [
    options(dataset, { evalProblems: 9 }),
    options('tiny', { evalProblems: 9, trainData }),
  ];
  for (const given of [file, memory]) {
    const whole = { ...given, engine: new FakeEngine({}), out: `${given.out}-whole` };
    const { base } = await (await train(...asCall(whole))).result();
    expect(base.greedy!.n).toBe(8);
    await stopAfter(7, given);
    await (await train({}, { ...resuming(given.out), ...(given === memory && { trainData }) })).result();
    expect(metricsOf(given.out)).toEqual(metricsOf(whole.out));
    const forked = await train(
      {},
      {
        fork: { run: given.out, at: 5 },
        out: `${given.out}-fork`,
        engine: new FakeEngine({}),
        tokenizer: fakeTokenizer,
        ...(given === memory && { trainData }),
      },
    );
    await forked.result();
    expect(metricsOf(forked.directory)).toEqual(metricsOf(whole.out));
  }
});

test('data in memory is never mistaken for another data set', async () => {
  const problem = (i: number) => ({ id: `${i}`, question: `say ${i}`, gold: String(i), level: null });
  const [trainData, evalData] = ['mine + yours', 'test'].map((name, k) => {
    return { name, size: 8, get: (index: number) => problem(8 * k + index) };
  });
  const given = options('tiny', { evalProblems: 8, trainData, evalData });
  await stopAfter(7, given);
  const config = JSON.parse(readFileSync(join(given.out, 'config.json'), 'utf8')) as object;
  expect(config).toMatchObject({ dataset: 'memory:mine and yours', evalDataset: 'memory:test' });
  const refusal = 'The data set mine and yours was in the memory of the training program';
  await expect(train(...asCall(resuming(given.out)))).rejects.toMatchObject({
    code: 'BAD_INPUT',
    message: expect.stringContaining(refusal) as string,
  });
  const { code, stdout, stderr } = await acoer('eval', '--run', given.out);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toBe(
    `acoer: ${refusal}; pass it again to train() as it was given (dataset or trainData, evalDataset or evalData). To evaluate, name other data with --benchmark.\n`,
  );
  await (await train({}, { ...resuming(given.out), trainData, evalData })).result();
  const card = readFileSync(join(given.out, 'final', 'README.md'), 'utf8');
  expect(card).toContain('dataset="memory:mine and yours"');
});
