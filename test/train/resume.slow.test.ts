/** N steps straight equal k steps, a kill, a resume and N - k steps: every metric, table and saved byte. */
import { cpSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { train, type TrainEvent, type TrainOptions, type TrainSettings } from '../../src/train';
import { TINY_MODEL } from '../../src/models';
import { readMetrics } from '../../src/run';
import { FakeEngine } from '../helpers/fake-engine';
import { fakeDataset, fakeEvaluation, fakeTokenizer } from '../helpers/fake-tokenizer';
import { copyKilledAfter, untimedFiles } from '../helpers/run-files';
import { asCall } from '../helpers/given';

const root = mkdtempSync(join(tmpdir(), 'acoer-resume-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let folders = 0;
const newFolder = () => join(root, `run-${folders++}`);

const parts = () => ({
  engine: new FakeEngine(),
  tokenizer: fakeTokenizer,
  trainData: fakeDataset(30),
  evalData: fakeEvaluation(30),
});

const N = 11;
const settings: TrainSettings = {
  maxSteps: N,
  maxCompletionLength: 40,
  learningRate: 100,
  numIterations: 2,
  stepsPerGeneration: 2,
  promptsPerStep: 4,
  beta: 0.02,
  lossType: 'grpo',
  reward: 'acoer',
  evalSteps: 3,
  evalProblems: 10,
  evalSampledProblems: 10,
  evalMaxNewTokens: 60,
  saveSteps: 1,
  keepCheckpoints: null,
  completionsSteps: 1,
};

const killedAfter = (whole: string, k: number): string => copyKilledAfter(whole, k, newFolder());

let whole: string;
beforeAll(async () => {
  whole = newFolder();
  await (await train(settings, { ...parts(), out: whole })).result();
});

test.each(Array.from({ length: N + 1 }, (_, k) => k))('killed after step %i of a run', async (k) => {
  const folder = killedAfter(whole, k);
  await (await train({}, { ...parts(), resume: folder })).result();
  expect(untimedFiles(folder)).toEqual(untimedFiles(whole));
});

test.each(['final', '.tmp-final-1', '.old-final'])(
  'killed while writing final/: %s is there, and no summary',
  async (name) => {
    const folder = newFolder();
    cpSync(whole, folder, { recursive: true });
    rmSync(join(folder, 'summary.json'));
    writeFileSync(join(folder, 'final', 'README.md'), 'of a run that ended otherwise');
    renameSync(join(folder, 'final'), join(folder, name));
    await (await train({}, { ...parts(), resume: folder })).result();
    expect(untimedFiles(folder)).toEqual(untimedFiles(whole));
  },
);

test('final/ holds the tokenizer of the model, and a card', () => {
  const files = (folder: string, name: string) => readFileSync(join(folder, name));
  for (const name of ['tokenizer.json', 'tokenizer_config.json', 'generation_config.json']) {
    expect(files(join(whole, 'final'), name).equals(files(TINY_MODEL, name))).toBe(true);
  }
  const card = files(join(whole, 'final'), 'README.md').toString();
  expect(card).toMatch(/^---\n[^]*library_name: peft\n[^]*\n---\n\n# tiny with GRPO and the reward acoer\n/);
  expect(card).toContain('| greedy | 10 |');
});

test('a power loss that took lines of metrics: restored, and trackers follow', async () => {
  const folder = killedAfter(whole, 7);
  const path = join(folder, 'metrics.jsonl');
  const lines = readFileSync(path, 'utf8').split('\n');
  writeFileSync(path, `${lines.slice(0, 4).join('\n')}\n${'\0'.repeat(3000)}`);
  const warnings: string[] = [];
  const onEvent = (event: TrainEvent) => void (event.type === 'warning' && warnings.push(event.message));
  await (await train({}, { ...parts(), resume: folder, onEvent })).result();
  expect(warnings).toEqual([`${path} had lost the lines of steps 5-7: restored from checkpoints.`]);
  expect(untimedFiles(folder)).toEqual(untimedFiles(whole));
});

test('stopped and resumed after each single step', async () => {
  const folder = newFolder();
  const begun = { ...settings, ...parts(), out: folder, saveSteps: 0 };
  let run = await train(...asCall(begun));
  for (let stops = 0; ; stops++) {
    run.stop();
    const ended = await run.result().catch((error: { code: string }) => error.code);
    if (ended !== 'INTERRUPTED') break;
    expect(stops).toBeLessThan(3 * N);
    run = await train({}, { ...parts(), resume: folder });
    const step = await run.next();
    if (step.done === true) break;
  }
  await run.result();
  const metricsOf = (path: string) => untimedFiles(path).get('metrics.jsonl');
  expect(metricsOf(folder)).toEqual(metricsOf(whole));
  const adapter = (path: string) => readFileSync(join(path, 'final', 'adapter_model.safetensors'));
  expect(adapter(folder).equals(adapter(whole))).toBe(true);
});

test('an interrupted evaluation is repeated, but not its step', async () => {
  const controller = new AbortController();
  const onEvent = (event: TrainEvent) => {
    if (event.type === 'eval-progress' && event.phase === 'step' && event.done === 5) controller.abort();
  };
  const folder = newFolder();
  const run = await train(
    { ...settings, saveSteps: 0 },
    { ...parts(), out: folder, signal: controller.signal, onEvent },
  );
  await expect(run.result()).rejects.toMatchObject({ code: 'INTERRUPTED' });
  expect(readMetrics(join(folder, 'metrics.jsonl'))).toHaveLength(2);
  expect(readdirSync(join(folder, 'checkpoints'))).toEqual(['step-000003']);
  const resumed = await train({}, { ...parts(), resume: folder });
  expect((await resumed.next()).value).toMatchObject({ index: 3 });
  await resumed.result();
  const metricsOf = (path: string) => untimedFiles(path).get('metrics.jsonl');
  expect(metricsOf(folder)).toEqual(metricsOf(whole));
});

describe('a damaged checkpoint', () => {
  const damages: [string, (file: string) => void][] = [
    ['one bit flipped', (file) => flipBit(file)],
    ['cut off', (file) => writeFileSync(file, readFileSync(file).subarray(0, -3))],
    ['empty', (file) => writeFileSync(file, '')],
    ['missing', (file) => rmSync(file)],
  ];
  const files = [
    'adapter_model.safetensors',
    'optimizer.safetensors',
    'rollouts.safetensors',
    'state.json',
    'SHA256SUMS',
  ];

  function flipBit(file: string): void {
    const bytes = readFileSync(file);
    bytes[bytes.length >> 1]! ^= 4;
    writeFileSync(file, bytes);
  }

  test.each(files.flatMap((file) => damages.map(([how, damage]) => [file, how, damage] as const)))(
    '%s %s: the one before is used, with a warning',
    async (file, _, damage) => {
      const folder = killedAfter(whole, 6);
      damage(join(folder, 'checkpoints', 'step-000006', file));
      const events: TrainEvent[] = [];
      const run = await train({}, { ...parts(), resume: folder, onEvent: (event) => events.push(event) });
      expect(events[0]).toMatchObject({ type: 'run', resumedStep: 5 });
      const [warning] = events.filter((event) => event.type === 'warning');
      expect(warning!.message).toMatch(
        /^The checkpoint of step 6 is damaged \(.*(SHA256SUMS|checksum|missing).*step 5\.$/,
      );
      await run.return();
    },
  );

  test('a run that falls back on an older one ends like an uninterrupted run', async () => {
    const folder = killedAfter(whole, 6);
    for (const step of [5, 6]) flipBit(join(folder, 'checkpoints', `step-00000${step}`, 'state.json'));
    await (await train({}, { ...parts(), resume: folder })).result();
    expect(untimedFiles(folder)).toEqual(untimedFiles(whole));
    expect(readdirSync(join(folder, 'checkpoints')).slice(0, 2)).toEqual([
      'damaged-step-000005',
      'damaged-step-000006',
    ]);
  });

  test('with none before it the run starts over, with a warning', async () => {
    const folder = killedAfter(whole, 1);
    flipBit(join(folder, 'checkpoints', 'step-000001', 'state.json'));
    const warnings: string[] = [];
    const onEvent = (event: TrainEvent) => event.type === 'warning' && warnings.push(event.message);
    const run = await train({}, { ...parts(), resume: folder, onEvent });
    expect(warnings[0]).toContain('there is no earlier one');
    expect((await run.next()).value).toMatchObject({ index: 1 });
    await run.return();
  });
});

describe('changed settings', () => {
  const resumeWith = (
    folder: string,
    more: TrainSettings,
    events: TrainEvent[] = [],
    own: TrainOptions = {},
  ) => train(more, { ...parts(), resume: folder, onEvent: (event) => events.push(event), ...own });

  test('a change to what the steps depend on is refused; the message says what changed and what may', async () => {
    const folder = killedAfter(whole, 4);
    const before = readFileSync(join(folder, 'config.json'));
    const bad = resumeWith(folder, { learningRate: 3, reward: 'acc', saveSteps: 2 });
    await expect(bad).rejects.toMatchObject({ code: 'BAD_CONFIG' });
    await expect(resumeWith(folder, { learningRate: 3 })).rejects.toThrow(
      /cannot change learningRate 100 -> 3: .*It can change maxSteps, saveSteps/,
    );
    await expect(resumeWith(folder, { maxSteps: 3 })).rejects.toThrow('it has already made 4 steps');
    expect(readFileSync(join(folder, 'config.json')).equals(before)).toBe(true);
    expect(readdirSync(folder)).not.toContain('lock.json');
  });

  test('giving the same settings again is not a change', async () => {
    const folder = killedAfter(whole, 10);
    const events: TrainEvent[] = [];
    await (await resumeWith(folder, settings, events)).result();
    expect(events.filter((event) => event.type === 'warning')).toEqual([]);
  });

  test('other changes are applied, reported and stored', async () => {
    const folder = killedAfter(whole, 4);
    const events: TrainEvent[] = [];
    const changes = { saveSteps: 4, threads: 1, numSpeculativeTokens: 4 };
    const run = await resumeWith(folder, changes, events);
    expect(events.filter((event) => event.type === 'warning').map(({ message }) => message)).toEqual([
      'changed on resuming: numSpeculativeTokens 0 -> 4 (later numbers may differ by rounding)',
      'changed on resuming: saveSteps 1 -> 4',
      'changed on resuming: threads null -> 1 (later numbers may differ by rounding)',
    ]);
    await run.result();
    expect(readdirSync(join(folder, 'checkpoints')).slice(-2)).toEqual(['step-000008', 'step-000011']);
    expect(JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8'))).toMatchObject(changes);
  });

  test('a configuration edited by hand is compared with that of the checkpoint', async () => {
    const folder = killedAfter(whole, 4);
    const path = join(folder, 'config.json');
    writeFileSync(path, readFileSync(path, 'utf8').replace('"seed": 42', '"seed": 43'));
    await expect(resumeWith(folder, {})).rejects.toThrow('cannot change seed 42 -> 43');
  });

  test('a finished run continues to more steps as if it had been started with them', async () => {
    const constant: TrainSettings = { ...settings, lrSchedulerType: 'constant', warmupRatio: 0 };
    const long = newFolder();
    await (await train(constant, { ...parts(), out: long })).result();
    const folder = newFolder();
    await (await train({ ...constant, maxSteps: 6 }, { ...parts(), out: folder })).result();
    const events: TrainEvent[] = [];
    const summary = await (await resumeWith(folder, { maxSteps: N }, events)).result();
    expect(summary.run.steps).toBe(N);
    expect(untimedFiles(folder).get('metrics.jsonl')).toEqual(untimedFiles(long).get('metrics.jsonl'));
    expect(events).toContainEqual({
      type: 'warning',
      message:
        'changed on resuming: maxSteps 6 -> 11 (the learning rate of later steps follows the new length)',
    });
  });

  test('data other than that the run began with is refused', async () => {
    const folder = killedAfter(whole, 4);
    await expect(resumeWith(folder, {}, [], { trainData: fakeDataset(31) })).rejects.toThrow(
      'has 31 problems now and had 30',
    );
  });

  test('a checkpoint of another version is resumed, with a warning', async () => {
    const folder = newFolder();
    const run = await train(settings, { ...parts(), out: folder });
    await run.next();
    await run.return();
    const engine = new FakeEngine();
    engine.deviceInfo.device = 'cuda:0';
    const events: TrainEvent[] = [];
    const resumed = await resumeWith(folder, {}, events, { engine });
    await resumed.return();
    expect(events).toContainEqual(
      expect.objectContaining({ message: expect.stringContaining('device cpu, now cuda:0') }),
    );
  });
});

describe('the checkpoints that are kept', () => {
  test('are the newest and the one with the best evaluation', async () => {
    const folder = newFolder();
    const more: TrainSettings = { saveSteps: 2, keepCheckpoints: 2, evalSteps: 3 };
    const summary = await (await train({ ...settings, ...more }, { ...parts(), out: folder })).result();
    const evaluated = readMetrics(join(folder, 'metrics.jsonl')).filter(
      (line) => 'eval/greedy_accuracy' in line,
    );
    const order = [...evaluated].sort(
      (a, b) =>
        b['eval/greedy_accuracy']! - a['eval/greedy_accuracy']! ||
        a['eval/greedy_thinking_tokens']! - b['eval/greedy_thinking_tokens']!,
    );
    const best = order[0]!.step!;
    if (summary.run.best!.step !== N) expect(summary.run.best!.step).toBe(best);
    const names = [...new Set([best, 10, 11])]
      .sort((a, b) => a - b)
      .map((step) => `step-${String(step).padStart(6, '0')}`);
    expect(readdirSync(join(folder, 'checkpoints'))).toEqual(names);
  });
});
