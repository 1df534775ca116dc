/** What a run tells others while it runs: its events and progress.json. */
import { existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import type * as promises from 'node:fs/promises';
import { join } from 'node:path';
import { DataOrder } from '../../src/grpo/order';
import { readProgress, type RunProgress } from '../../src/run';
import { train, type TrainEvent } from '../../src/train';
import { FakeEngine, type FakeFaults, FakeModel } from '../helpers/fake-engine';
import { fakeParts, fakeRun, newFolder, removeFakeRuns } from '../helpers/fake-run';
import { untimedFiles } from '../helpers/run-files';
import { asCall, type Given } from '../helpers/given';

let broken = false;
jest.mock('node:fs/promises', () => {
  const real = jest.requireActual<typeof promises>('node:fs/promises');
  const writeFile: typeof real.writeFile = async (path, ...rest) => {
    if (broken && String(path).includes('progress.json')) {
      throw Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });
    }
    return real.writeFile(path, ...rest);
  };
  return { ...real, writeFile };
});

afterAll(removeFakeRuns);
beforeEach(() => (broken = false));

const settings = (): Given => ({ maxSteps: 4, promptsPerStep: 2, numGenerations: 4, evalSteps: 2 });
const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

type Progressing = TrainEvent & { type: 'decode-progress' | 'eval-progress' };

function listened(more: Given = {}, faults: FakeFaults = {}) {
  const events: Progressing[] = [];
  const warnings: string[] = [];
  const onEvent = (event: TrainEvent) => {
    if (event.type === 'warning') warnings.push(event.message);
    if (event.type === 'decode-progress' || event.type === 'eval-progress') events.push(event);
  };
  const engine = new FakeEngine(faults);
  const out = more.out ?? newFolder();
  return { given: { ...fakeRun({ ...settings(), ...more, onEvent }), out, engine }, events, warnings };
}

describe('events', () => {
  test('carry completions, tokens and sequences in flight, of generations and evaluations', async () => {
    const { given, events } = listened();
    const run = await train(...asCall(given));
    await run.result();
    const generations = events.filter((event) => event.type === 'decode-progress' && event.step === 2);
    const [first, ...ended] = generations;
    // The fake reports once, before the first completion ends.
    expect(first).toMatchObject({ done: 0, total: 8 });
    expect(first!.sequences).toHaveLength(8);
    expect(new Set(first!.sequences.map(({ prompt, sample }) => `${prompt} ${sample}`)).size).toBe(8);
    const order = new DataOrder(given.trainData.size, run.config.seed);
    for (const { problemId, prompt } of first!.sequences) {
      expect(problemId).toBe(given.trainData.get(order.rowAt(prompt)).id);
    }
    expect(first!.tokens).toBe(first!.sequences.reduce((sum, { tokens }) => sum + tokens, 0));
    expect(ended.map(({ done }) => done)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(ended.map(({ sequences }) => sequences.length)).toEqual([7, 6, 5, 4, 3, 2, 1, 0]);
    const tokens = generations.map((event) => event.tokens);
    expect(tokens).toEqual([...tokens].sort((a, b) => a - b));
    for (const { tokensPerSecond } of ended) expect(tokensPerSecond).toBeGreaterThan(0);

    const evaluations = events.filter((event) => event.type === 'eval-progress' && event.phase === 'base');
    expect(evaluations[0]).toMatchObject({ kind: 'greedy', done: 0, total: 20 });
    expect(evaluations[0]!.sequences).toHaveLength(20);
    expect(evaluations.at(-1)).toMatchObject({ done: 20, sequences: [] });
  });

  test('a completion generated again counts once', async () => {
    const { given, events } = listened({ evalProblems: 0 }, { slots: 3 });
    const rows: number[] = [];
    const run = await train(...asCall(given));
    const { metrics } = (await run.next()).value!;
    rows.push(metrics['completions/mean_length']! * 8);
    await run.return();
    const last = events.filter(({ type }) => type === 'decode-progress').at(-1)!;
    expect(last).toMatchObject({ done: 8, total: 8, sequences: [] });
    expect(last.tokens).toBeCloseTo(rows[0]!, 6);
  });

  test('a slow sink misses reports of progress, but nothing else', async () => {
    const seen: string[] = [];
    const sink = {
      event: async ({ type }: TrainEvent) => {
        seen.push(type);
        await wait(2);
      },
    };
    const { given, events } = listened({ sinks: [sink] });
    await (await train(...asCall(given))).result();
    const passing = seen.filter((type) => type.endsWith('-progress'));
    expect(passing.length).toBeGreaterThan(0);
    expect(passing.length).toBeLessThan(events.length / 2);
    expect(seen.filter((type) => type === 'step')).toHaveLength(4);
    expect(seen.filter((type) => type === 'evaluated')).toHaveLength(3);
  });
});

describe('progress.json', () => {
  /** Holds the first generation that `holds` picks until it is let go. */
  function held(engine: FakeEngine, holds: (call: Parameters<FakeModel['generate']>) => boolean) {
    const model = engine.model!;
    const generate = FakeModel.prototype.generate.bind(model);
    let letGo = () => undefined as void;
    const released = new Promise<void>((resolve) => (letGo = resolve));
    model.generate = async (...call) => {
      if (!holds(call)) return generate(...call);
      model.generate = generate;
      const inFlight = Int32Array.of(0, 0, 11, 1, 0, 22);
      call[1]?.onProgress?.({ ended: 0, total: 8, promptTokens: 9, inFlight });
      await released;
      return generate(...call);
    };
    return letGo;
  }

  /** Waits for the file to say so. */
  async function until(path: string, holds: (progress: RunProgress) => boolean): Promise<RunProgress> {
    for (let i = 0; i < 300; i++) {
      const progress = readProgress(path);
      if (progress !== null && holds(progress)) return progress;
      await wait(10);
    }
    throw new Error(`progress.json stayed ${JSON.stringify(readProgress(path))}`);
  }

  test('shows the base evaluation, a generation, later phases and the end', async () => {
    const { given } = listened();
    const run = await train(...asCall(given));
    const afterBase = held(given.engine, () => true);
    const first = run.next();
    const base = await until(given.out, ({ tokens }) => tokens === 33);
    expect(base).toMatchObject({ phase: 'base evaluation', kind: 'greedy', step: 0, maxSteps: 4, done: 0 });
    expect(base).toMatchObject({ total: 20, pid: process.pid });
    expect(base.sequences).toEqual([
      { prompt: 0, problemId: given.evalData.get(0).id, sample: 0, tokens: 11 },
      { prompt: 1, problemId: given.evalData.get(1).id, sample: 0, tokens: 22 },
    ]);
    afterBase();
    await first;
    const afterTokens = held(given.engine, () => true);
    const second = run.next();
    const generating = await until(given.out, ({ step, tokens }) => step === 2 && tokens === 33);
    expect(generating).toMatchObject({ phase: 'generate', kind: null, step: 2, done: 0, total: 8 });
    expect(generating.tokensPerSecond).toBeGreaterThan(0);
    expect(generating.sequences.map(({ tokens }) => tokens)).toEqual([11, 22]);
    const { policy } = given.engine.model!;
    let goOn = () => undefined as void;
    const forward = policy!.forward.bind(policy);
    policy!.forward = async (batch) => {
      policy!.forward = forward;
      await new Promise<void>((resolve) => (goOn = resolve));
      return forward(batch);
    };
    afterTokens();
    const training = await until(given.out, ({ phase }) => phase === 'train');
    expect(training).toMatchObject({
      step: 2,
      done: null,
      tokens: null,
      tokensPerSecond: null,
      sequences: [],
    });
    goOn();
    await second;
    await run.result();
    expect(readProgress(given.out)).toMatchObject({ phase: 'finished', step: 4, maxSteps: 4, sequences: [] });
    expect(readdirSync(given.out).filter((name) => name.startsWith('.'))).toEqual([]);
  });

  test('says how a run ended that did not finish, and a resumed run starts over', async () => {
    const { given } = listened();
    const run = await train(...asCall(given));
    for (let i = 0; i < 2; i++) await run.next();
    await run.return();
    expect(readProgress(given.out)).toMatchObject({ phase: 'interrupted', step: 2, done: null });

    const parts = fakeParts();
    const loadModel = parts.engine.loadModel.bind(parts.engine);
    let goOn = () => undefined as void;
    parts.engine.loadModel = async () => {
      await new Promise<void>((resolve) => (goOn = resolve));
      return loadModel();
    };
    const resuming = train({}, { resume: given.out, ...parts });
    expect(await until(given.out, ({ phase }) => phase === 'loading')).toMatchObject({
      step: 0,
      maxSteps: 4,
    });
    goOn();
    const resumed = await resuming;
    parts.engine.model!.generate = () => Promise.reject(new Error('broken'));
    await expect(resumed.result()).rejects.toThrow('broken');
    expect(readProgress(given.out)).toMatchObject({ phase: 'failed', step: 3 });
  });

  test('a fork has its own', async () => {
    const { given } = listened({ saveSteps: 1 });
    const run = await train(...asCall(given));
    for (let i = 0; i < 2; i++) await run.next();
    await run.return();
    const out = newFolder();
    const fork = await train({ maxSteps: 3 }, { fork: { run: given.out, at: 1 }, out, ...fakeParts() });
    expect(readProgress(given.out)).toMatchObject({ phase: 'interrupted', maxSteps: 4 });
    await fork.result();
    expect(readProgress(out)).toMatchObject({ phase: 'finished', step: 3, maxSteps: 3 });
  });

  test('goes with a run that could not start, and is in the way of a new one', async () => {
    const { given } = listened();
    given.engine.loadModel = () => Promise.reject(new Error('no such model'));
    await expect(train(...asCall(given))).rejects.toThrow('no such model');
    expect(existsSync(given.out)).toBe(false);

    const other = listened();
    await (await train(...asCall(other.given))).return();
    for (const name of readdirSync(other.given.out)) {
      if (name !== 'progress.json') rmSync(join(other.given.out, name), { recursive: true });
    }
    await expect(train(...asCall(listened({ out: other.given.out }).given))).rejects.toMatchObject({
      code: 'RUN_EXISTS',
    });
  });

  test('that cannot be written is one warning, and the run has the same files', async () => {
    const whole = listened();
    await (await train(...asCall(whole.given))).result();
    broken = true;
    const { given, warnings } = listened();
    const run = await train(...asCall(given));
    await run.next();
    await wait(250);
    await run.result();
    expect(warnings).toEqual([
      `${join(given.out, 'progress.json')} cannot be written (ENOSPC: no space left on device), so it may be out of date; the run goes on.`,
    ]);
    expect(readProgress(given.out)).toBeNull();
    expect(untimedFiles(given.out)).toEqual(untimedFiles(whole.given.out));
  });

  test('is not touched once the run has let go of its folder', async () => {
    const { given } = listened();
    await (await train(...asCall(given))).result();
    writeFileSync(join(given.out, 'progress.json'), 'mine');
    await wait(1_200);
    expect(readProgress(given.out)).toBeNull();
  });
});
