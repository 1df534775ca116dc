/** Faults of the machine: each is reported in one sentence, and nothing that could be kept is lost. */
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { train, type TrainEvent } from '../../src/train';
import { registerReward } from '../../src/rewards/registry';
import { FakeEngine } from '../helpers/fake-engine';
import { fakeDataset, fakeEvaluation, fakeTokenizer } from '../helpers/fake-tokenizer';
import { untimedFiles } from '../helpers/run-files';
import { asCall, type Given } from '../helpers/given';

const root = fs.mkdtempSync(join(tmpdir(), 'acoer-faults-'));
afterAll(() => fs.rmSync(root, { recursive: true, force: true }));
afterEach(() => jest.restoreAllMocks());
let folders = 0;
const newFolder = () => join(root, `run-${folders++}`);

function options(more: Given = {}) {
  const warnings: string[] = [];
  const given = {
    tokenizer: fakeTokenizer,
    trainData: fakeDataset(30),
    evalData: fakeEvaluation(30),
    patience: { retryMs: 2, giveUpMs: 60_000 },
    onEvent: (event: TrainEvent) => event.type === 'warning' && warnings.push(event.message),
    ...more,
    engine: new FakeEngine(),
  };
  return { given, warnings };
}

const settings = (): Given => ({
  out: newFolder(),
  maxSteps: 6,
  maxCompletionLength: 40,
  learningRate: 100,
  numIterations: 2,
  evalSteps: 2,
  evalProblems: 5,
  evalSampledProblems: 5,
  evalMaxNewTokens: 60,
  saveSteps: 2,
  completionsSteps: 2,
});

let whole: Map<string, unknown>;
beforeAll(async () => {
  const { given } = options(settings());
  await (await train(...asCall(given))).result();
  whole = untimedFiles(given.out!);
});

type Write = 'writeSync' | 'writeFileSync' | 'renameSync' | 'fsyncSync';
const systemError = (code: string, text: string) =>
  Object.assign(new Error(`${code}: ${text}, write`), { code });

/** From now on calls of `name` fail with the error of `broken`; null: the call works. */
function breakWrites(name: Write, broken: (call: number) => Error | null): void {
  const original = fs[name] as (...given: unknown[]) => unknown;
  let calls = 0;
  jest.spyOn(fs, name).mockImplementation(((...given: unknown[]) => {
    const error = broken(calls++);
    if (error !== null) throw error;
    return original(...given);
  }) as never);
}

const FULL = systemError('ENOSPC', 'no space left on device');

describe('a full disk', () => {
  test.each<Write>(['writeSync', 'writeFileSync', 'renameSync', 'fsyncSync'])(
    'with space again later (%s): the run waits and loses nothing',
    async (name) => {
      const { given, warnings } = options(settings());
      const run = await train(...asCall(given));
      await run.next();
      // More calls than a file or checkpoint takes, so a second attempt can succeed.
      breakWrites(name, (call) => (call % 13 === 0 ? FULL : null));
      await run.result();
      jest.restoreAllMocks();
      expect(untimedFiles(given.out!)).toEqual(whole);
      expect(warnings[0]).toMatch(
        /^Cannot write .*: the disk is full\. The run will wait up to 1 minutes for space\.$/,
      );
    },
  );

  test('a partly written line is removed', async () => {
    const { given } = options(settings());
    const run = await train(...asCall(given));
    await run.next();
    const { writeSync } = fs;
    let failed = false;
    jest.spyOn(fs, 'writeSync').mockImplementation(((handle: number, line: Buffer, from: number) => {
      if (failed) return writeSync(handle, line, from);
      failed = true;
      writeSync(handle, line, from, 10);
      throw FULL;
    }) as never);
    await run.result();
    expect(untimedFiles(given.out!)).toEqual(whole);
  });

  test('is recognised by its message when the engine meets it', async () => {
    const { given, warnings } = options(settings());
    const run = await train(...asCall(given));
    await run.next();
    const policy = given.engine.model!.policy!;
    const save = policy.saveOptimizer.bind(policy);
    let calls = 0;
    policy.saveOptimizer = (path) =>
      calls++ > 0 ? save(path) : Promise.reject(new Error(`cannot write ${path}: No space left on device`));
    await run.result();
    expect(warnings[0]).toContain('the disk is full');
    expect(untimedFiles(given.out!)).toEqual(whole);
  });

  test('that stays full ends the run with a sentence; with space the run resumes from the last checkpoint', async () => {
    const { given } = options({ ...settings(), patience: { retryMs: 2, giveUpMs: 20 } });
    const run = await train(...asCall(given));
    for (let i = 0; i < 3; i++) await run.next();
    breakWrites('writeSync', () => FULL);
    breakWrites('writeFileSync', () => FULL);
    const ended = run.result();
    await expect(ended).rejects.toMatchObject({ code: 'WRITE_FAILED' });
    await expect(ended).rejects.toThrow(
      /^Cannot write the answers of the evaluation: the disk is full .* ended after step 4; once the disk can be written: acoer train --resume /,
    );
    jest.restoreAllMocks();
    const { given: again } = options({ resume: given.out });
    const resumed = await train(...asCall(again));
    expect((await resumed.next()).value).toMatchObject({ index: 3 });
    await resumed.result();
    expect(untimedFiles(given.out!)).toEqual(whole);
  });

  test('does not delay a stop', async () => {
    const { given } = options({ ...settings(), patience: { retryMs: 60_000, giveUpMs: 600_000 } });
    const run = await train(...asCall(given));
    await run.next();
    breakWrites('writeSync', () => FULL);
    setTimeout(() => run.stop(), 20);
    await expect(run.result()).rejects.toMatchObject({
      code: 'INTERRUPTED',
      message: expect.stringContaining('the disk is full') as string,
    });
    jest.restoreAllMocks();
    // The checkpoint could still be written, and it holds the line that could not be.
    const { given: again } = options({ resume: given.out });
    const resumed = await train(...asCall(again));
    expect((await resumed.next()).value).toMatchObject({ index: 2 });
    await resumed.result();
    expect(untimedFiles(given.out!).get('metrics.jsonl')).toEqual(whole.get('metrics.jsonl'));
  });
});

test.each([
  ['read-only', systemError('EROFS', 'read-only file system'), 'the file system is read-only'],
  ['failing', systemError('EIO', 'i/o error'), 'the disk reported an error'],
])('a %s disk ends the run with a sentence, and it can be resumed', async (_, error, sentence) => {
  const { given, warnings } = options(settings());
  const run = await train(...asCall(given));
  for (let i = 0; i < 3; i++) await run.next();
  for (const name of ['writeSync', 'writeFileSync'] as const) breakWrites(name, () => error);
  await expect(run.result()).rejects.toThrow(sentence);
  expect(warnings).toContainEqual(expect.stringMatching(/^The last checkpoint could not be written: /));
  jest.restoreAllMocks();
  await (await train(...asCall(options({ resume: given.out }).given))).result();
  expect(untimedFiles(given.out!)).toEqual(whole);
});

describe('a run directory', () => {
  test('that vanished ends the run with a sentence and is not created again', async () => {
    const { given } = options(settings());
    const run = await train(...asCall(given));
    await run.next();
    fs.rmSync(given.out!, { recursive: true });
    const ended = run.result();
    await expect(ended).rejects.toMatchObject({ code: 'WRITE_FAILED' });
    await expect(ended).rejects.toThrow(`The folder ${given.out} is gone`);
    expect(fs.existsSync(given.out!)).toBe(false);
  });

  test('that was moved can be resumed from its new place', async () => {
    const { given } = options(settings());
    const run = await train(...asCall(given));
    for (let i = 0; i < 3; i++) await run.next();
    const moved = newFolder();
    fs.renameSync(given.out!, moved);
    await expect(run.result()).rejects.toThrow('is gone');
    // As if the run's process had ended.
    fs.rmSync(join(moved, 'lock.json'));
    await (await train(...asCall(options({ resume: moved }).given))).result();
    expect(untimedFiles(moved)).toEqual(whole);
  });

  test('cannot be written by two runs, and the first is not disturbed', async () => {
    const { given } = options(settings());
    const run = await train(...asCall(given));
    await run.next();
    const second = train(...asCall(options({ resume: given.out }).given));
    await expect(second).rejects.toMatchObject({ code: 'RUN_LOCKED' });
    await expect(second).rejects.toThrow(/is in use by this process on .*: wait for it to end/);
    await expect(train(...asCall(options({ ...settings(), out: given.out }).given))).rejects.toMatchObject({
      code: 'RUN_LOCKED',
    });
    await run.result();
    expect(untimedFiles(given.out!)).toEqual(whole);
  });

  test('is unlocked however the run ended', async () => {
    const { given } = options(settings());
    const run = await train(...asCall(given));
    await run.return();
    expect(fs.readdirSync(given.out!)).not.toContain('lock.json');
    await (await train(...asCall(options({ resume: given.out }).given))).result();
    expect(untimedFiles(given.out!)).toEqual(whole);
  });
});

test.each([-86_400_000, 86_400_000])(
  'a clock that jumps by %i ms at every reading changes nothing',
  async (jumpMs) => {
    const { given } = options(settings());
    let now = Date.now();
    jest.spyOn(Date, 'now').mockImplementation(() => (now += jumpMs));
    const run = await train(...asCall(given));
    for (let i = 0; i < 3; i++) await run.next();
    await run.return();
    for await (const { metrics } of await train(...asCall(options({ resume: given.out }).given))) {
      expect(metrics.step_time).toBeGreaterThanOrEqual(0);
      expect(metrics.step_time).toBeLessThan(60);
    }
    expect(untimedFiles(given.out!).get('metrics.jsonl')).toEqual(whole.get('metrics.jsonl'));
  },
);

describe('a run that is asked to stop', () => {
  test('ends within 5 s even if a step hangs, keeping everything up to the step before', async () => {
    const { given } = options(settings());
    const run = await train(...asCall(given));
    for (let i = 0; i < 2; i++) await run.next();
    const model = given.engine.model!;
    // Returns only when aborted.
    model.generate = (_, { signal } = {}) =>
      new Promise((_resolve, reject) => {
        const abort = () => reject(Object.assign(new Error('cancelled'), { code: 'CANCELLED' }));
        if (signal!.aborted) abort();
        signal!.addEventListener('abort', abort);
      });
    const begun = performance.now();
    setTimeout(() => run.stop(), 10);
    const ended = run.result();
    await expect(ended).rejects.toMatchObject({ code: 'INTERRUPTED' });
    await expect(ended).rejects.toThrow(
      `Interrupted after step 2; resume with: acoer train --resume ${given.out}`,
    );
    expect(performance.now() - begun).toBeLessThan(5_000);
    await (await train(...asCall(options({ resume: given.out }).given))).result();
    expect(untimedFiles(given.out!)).toEqual(whole);
  });

  test('does not wait for a reward that never answers', async () => {
    const more = { ...settings(), rewardTimeoutMs: 8_000 };
    registerReward('never-answers', () => new Promise<number>(() => undefined));
    const { given } = options({ ...more, reward: 'never-answers' });
    const run = await train(...asCall(given));
    const begun = performance.now();
    setTimeout(() => run.stop(), 200);
    await expect(run.result()).rejects.toMatchObject({ code: 'INTERRUPTED' });
    expect(performance.now() - begun).toBeLessThan(5_000);
  });

  test('after a failure between an update and its state, weights without a matching state are not saved', async () => {
    const { given } = options(settings());
    const run = await train(...asCall(given));
    for (let i = 0; i < 3; i++) await run.next();
    given.engine.memory = () => Promise.reject(new Error('the device is gone'));
    await expect(run.result()).rejects.toThrow('the device is gone');
    expect(fs.readdirSync(join(given.out!, 'checkpoints'))).toEqual(['step-000002']);
    await (await train(...asCall(options({ resume: given.out }).given))).result();
    expect(untimedFiles(given.out!)).toEqual(whole);
  });
});
