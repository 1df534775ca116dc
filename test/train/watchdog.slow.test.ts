/** The watchdog: a hang in any phase is noticed, named and dumped, and the run ends but can be resumed. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PHASES, resolveConfig, type Config, type Phase } from '../../src/config';
import { awakeTimer, withinTime } from '../../src/base/deadline';
import { builtInJudge, gradeBuiltIn, gradeMath } from '../../src/judges';
import { BOXED } from '../../src/judges/format';
import { train, type TrainEvent } from '../../src/train';
import { silencesOf } from '../../src/train/silences';
import type { ModelSize } from '../../src/life/watchdog';
import { phaseLimitMs as limitMs } from '../../src/life/watchdog/limits';
import { registerReward } from '../../src/rewards/registry';
import { FakeEngine, FakeModel } from '../helpers/fake-engine';
import { fakeParts, fakeRun, removeFakeRuns } from '../helpers/fake-run';
import { untimedFiles } from '../helpers/run-files';
import { asCall, type Given } from '../helpers/given';

afterAll(removeFakeRuns);

type HangEvent = TrainEvent & { type: 'hang' };

/** Short enough for a test, but far longer than any phase of the fake takes. */
const LIMIT_MS = 400;

const settings = (): Given => ({
  maxSteps: 6,
  promptsPerStep: 2,
  numGenerations: 4,
  numIterations: 2,
  beta: 0.01,
  evalSteps: 2,
  saveSteps: 2,
  watchdogMs: LIMIT_MS,
  hangGraceMs: 100,
  // The default limits of loading and rewards would be minutes. A disk that others write to may take a second
  // for what a checkpoint has to wait for.
  watchdogPhaseMs: { loading: LIMIT_MS, reward: LIMIT_MS, checkpoint: 10 * LIMIT_MS },
});

function watched(more: Given = {}) {
  const hangs: HangEvent[] = [];
  const onEvent = (event: TrainEvent) => event.type === 'hang' && hangs.push(event);
  const engine = new FakeEngine();
  return { given: { ...fakeRun({ ...settings(), ...more, onEvent }), engine }, engine, hangs };
}

let whole: Map<string, unknown>;
beforeAll(async () => {
  const { given, hangs } = watched();
  await (await train(...asCall(given))).result();
  expect(hangs).toEqual([]);
  whole = untimedFiles(given.out);
});

/** The files of a run without the dumps. */
function filesOf(folder: string): Map<string, unknown> {
  return new Map([...untimedFiles(folder)].filter(([name]) => !name.startsWith('watchdog-')));
}

async function resume(folder: string): Promise<void> {
  await (await train({}, { resume: folder, ...fakeParts() })).result();
}

const dumpOf = ({ path }: HangEvent) => JSON.parse(readFileSync(path!, 'utf8')) as Record<string, unknown>;

describe.each<['answers a cancel' | 'is stuck']>([['answers a cancel'], ['is stuck']])(
  'an engine that %s',
  (kind) => {
    const never = (signal?: AbortSignal) =>
      new Promise<never>((_, reject) => {
        if (kind === 'is stuck') return;
        const cancel = () => reject(Object.assign(new Error('cancelled'), { code: 'CANCELLED' }));
        if (signal?.aborted === true) cancel();
        signal?.addEventListener('abort', cancel);
      });

    /** The call that hangs, and the phase and step it belongs to. */
    const cases: [Phase, number, (engine: FakeEngine) => void][] = [
      ['generate', 3, ({ model }) => (model!.generate = (_, options) => never(options?.signal))],
      [
        'score',
        3,
        ({ model }) => (model!.score = (_, options) => never((options as { signal?: AbortSignal }).signal)),
      ],
      [
        'train',
        3,
        ({ model }) =>
          (model!.policy!.forward = (_, options) => never((options as { signal?: AbortSignal }).signal)),
      ],
    ];

    test.each(cases)(
      'in %s: a dump, HUNG, and a resumed run equal to one that never hung',
      async (phase, step, hang) => {
        const { given, hangs } = watched();
        const run = await train(...asCall(given));
        for (let i = 0; i < 2; i++) await run.next();
        hang(given.engine);
        const ended = run.result();
        await expect(ended).rejects.toMatchObject({ code: 'HUNG', stuck: kind === 'is stuck' });
        await expect(ended).rejects.toThrow(
          `The run was ended; resume with: acoer train --resume ${given.out}`,
        );
        expect(hangs).toHaveLength(1);
        expect(hangs[0]).toMatchObject({
          phase,
          step,
          path: join(given.out, `watchdog-${step}-${phase}.json`),
        });
        expect(hangs[0]!.silentMs).toBeGreaterThanOrEqual(LIMIT_MS);
        expect(readdirSync(given.out)).not.toContain('lock.json');
        await resume(given.out);
        expect(filesOf(given.out)).toEqual(whole);
      },
    );
  },
);

test.each<[Phase, number, (engine: FakeEngine) => void]>([
  ['optimizer', 3, ({ model }) => (model!.policy!.step = () => new Promise(() => undefined))],
  [
    'evaluation',
    4,
    ({ model }) => {
      const generate = model!.generate.bind(model);
      model!.generate = (requests, options) =>
        options?.onSequence !== undefined && requests[0]!.sampling?.temperature === 0
          ? new Promise(() => undefined)
          : generate(requests, options);
    },
  ],
  ['checkpoint', 4, ({ model }) => (model!.policy!.saveOptimizer = () => new Promise(() => undefined))],
])('a hang in %s that nothing cancels ends the run all the same', async (phase, step, hang) => {
  const { given, hangs } = watched();
  const run = await train(...asCall(given));
  for (let i = 0; i < 2; i++) await run.next();
  hang(given.engine);
  await expect(run.result()).rejects.toMatchObject({ code: 'HUNG' });
  expect(hangs[0]).toMatchObject({ phase, step });
  await resume(given.out);
  expect(filesOf(given.out)).toEqual(whole);
});

test('a hang before the first step: in the evaluation of the base, and while loading the model', async () => {
  const evaluating = watched();
  const run = await train(...asCall(evaluating.given));
  evaluating.given.engine.model!.generate = () => new Promise(() => undefined);
  await expect(run.result()).rejects.toMatchObject({ code: 'HUNG' });
  expect(evaluating.hangs[0]).toMatchObject({ phase: 'baseEvaluation', step: 0 });
  await resume(evaluating.given.out);
  expect(filesOf(evaluating.given.out)).toEqual(whole);

  const loading = watched();
  loading.engine.loadModel = () => new Promise(() => undefined);
  const ended = train(...asCall(loading.given));
  await expect(ended).rejects.toMatchObject({ code: 'HUNG', stuck: true });
  await expect(ended).rejects.toThrow('The run was ended before it began.');
  expect(readdirSync(loading.given.out)).toEqual(['watchdog-0-loading.json']);
});

test('a reward that hangs: the dump names it, its samples and their texts', async () => {
  registerReward('hangs', (rollout) => (rollout.sample === 3 ? new Promise(() => undefined) : 1));
  const { given, hangs } = watched({ reward: 'hangs', evalProblems: 0, rewardTimeoutMs: 3_000 });
  const run = await train(...asCall(given));
  await expect(run.result()).rejects.toMatchObject({ code: 'HUNG', stuck: false });
  expect(hangs[0]).toMatchObject({ phase: 'reward', step: 1 });
  const dump = dumpOf(hangs[0]!) as {
    inFlight: { reward: string; sample: string; text: string }[];
    progress: number;
    engine: { name: string };
    threads: { state: string; name: string }[];
    memory: { rss: number };
    activeResources: string[];
    versions: { acoer: string; node: string };
    timeInPhaseMs: number;
    limitMs: number;
  };
  expect(dump.inFlight.map(({ reward, sample }) => [reward, sample.replace(/ \(.*/, '')])).toEqual([
    ['hangs', 'sample 3 of prompt 0'],
    ['hangs', 'sample 3 of prompt 1'],
  ]);
  for (const { text } of dump.inFlight) expect(text).toContain('boxed');
  expect(dump).toMatchObject({ progress: 6, limitMs: LIMIT_MS, engine: { name: 'fake' }, step: 1 });
  expect(dump.timeInPhaseMs).toBeGreaterThanOrEqual(LIMIT_MS);
  expect(JSON.stringify(dump)).not.toContain(process.env.PATH);
  expect(dump.memory.rss).toBeGreaterThan(0);
  expect(dump.versions.node).toBe(process.versions.node);
  if (process.platform === 'linux') {
    expect(dump.threads.length).toBeGreaterThan(1);
    for (const { state } of dump.threads) expect(state).toMatch(/^[RSDTZtXI]$/);
  }
});

describe('within one long completion', () => {
  const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

  /** Adds a token to one sequence every `everyMs`, as often as asked, and calls `then`. */
  const crawling =
    (tokens: number, everyMs: number, then: FakeModel['generate']): FakeModel['generate'] =>
    async (requests, options) => {
      for (let made = 1; made <= tokens; made++) {
        options?.onProgress?.({
          ended: 0,
          total: 8,
          promptTokens: 10,
          inFlight: Int32Array.of(1, 2, made),
        });
        await wait(everyMs);
      }
      return then(requests, options);
    };

  test('an engine that stops moving is noticed as soon as if it had just begun', async () => {
    const { given, hangs } = watched();
    const run = await train(...asCall(given));
    for (let i = 0; i < 2; i++) await run.next();
    given.engine.model!.generate = crawling(5, LIMIT_MS / 2, () => new Promise(() => undefined));
    await expect(run.result()).rejects.toMatchObject({ code: 'HUNG' });
    expect(hangs).toHaveLength(1);
    expect(hangs[0]).toMatchObject({ phase: 'generate', step: 3 });
    const { timeInPhaseMs, silentMs, progress } = dumpOf(hangs[0]!) as Record<string, number>;
    expect(progress).toBe(5);
    expect(timeInPhaseMs).toBeGreaterThan(2.5 * LIMIT_MS);
    // A tick is a fifth of the limit.
    expect(silentMs).toBeLessThan(2 * LIMIT_MS);
    await resume(given.out);
    expect(filesOf(given.out)).toEqual(whole);
  });

  test('a slow engine that moves is never one, in a generation or an evaluation', async () => {
    const { given, hangs } = watched();
    const run = await train(...asCall(given));
    for (const steps of [2, 4]) {
      const { model } = given.engine;
      const generate = FakeModel.prototype.generate.bind(model);
      let first = true;
      model!.generate = (...call) => {
        const next = first ? crawling(8, LIMIT_MS / 2, generate) : generate;
        first = false;
        return next(...call);
      };
      for (let i = 0; i < steps; i++) await run.next();
    }
    await run.result();
    expect(hangs).toEqual([]);
    expect(filesOf(given.out)).toEqual(whole);
  });

  test('the same report over and over is no sign of progress', async () => {
    const { given, hangs } = watched();
    const run = await train(...asCall(given));
    for (let i = 0; i < 2; i++) await run.next();
    given.engine.model!.generate = (_, options) =>
      new Promise((_resolve, reject) => {
        const inFlight = Int32Array.of(0, 0, 7);
        const timer = setInterval(
          () => options?.onProgress?.({ ended: 0, total: 8, promptTokens: 10, inFlight }),
          LIMIT_MS / 10,
        );
        options?.signal?.addEventListener('abort', () => {
          clearInterval(timer);
          reject(Object.assign(new Error('cancelled'), { code: 'CANCELLED' }));
        });
      });
    await expect(run.result()).rejects.toMatchObject({ code: 'HUNG' });
    expect(hangs[0]).toMatchObject({ phase: 'generate', step: 3 });
  });

  test.each([
    ['that says nothing keeps the limit of a whole completion', undefined, 1_600],
    ['that reports has the short one', true, LIMIT_MS],
  ])('a sampler of the user %s', async (_name, reportsProgress, limitMs) => {
    const { given, hangs } = watched({
      maxCompletionLength: 1_000,
      sampler: ({ engineSampler }) => ({
        ...(reportsProgress && { reportsProgress }),
        follow: (version) => engineSampler.follow(version),
        sample: () => new Promise(() => undefined),
      }),
    });
    const loadModel = given.engine.loadModel.bind(given.engine);
    given.engine.loadModel = async () => {
      const model = await loadModel();
      // 1.6 ms a token at 1 GB/s, of which a completion has 1,000.
      Object.assign(model.info, { parameterCount: 4e5, numLayers: 10 });
      return model;
    };
    await expect((await train(...asCall(given))).result()).rejects.toMatchObject({ code: 'HUNG' });
    expect(dumpOf(hangs[0]!)).toMatchObject({ phase: 'generate', step: 1, limitMs });
  });
});

test('onHang warn reports each silence once and keeps waiting', async () => {
  const { given, hangs } = watched({ onHang: 'warn' });
  const run = await train(...asCall(given));
  for (let i = 0; i < 2; i++) await run.next();
  const model = given.engine.model!;
  const generate = model.generate.bind(model);
  model.generate = async (requests, options) => {
    await new Promise((resolve) => setTimeout(resolve, 4 * LIMIT_MS));
    model.generate = generate;
    return generate(requests, options);
  };
  await run.result();
  expect(hangs.map(({ phase, step }) => [phase, step])).toEqual([['generate', 3]]);
  expect(filesOf(given.out).get('metrics.jsonl')).toEqual(whole.get('metrics.jsonl'));
});

test('nothing is watched between steps, nor with watchdogMs null', async () => {
  const { given, hangs } = watched();
  const run = await train(...asCall(given));
  await run.next();
  await new Promise((resolve) => setTimeout(resolve, 3 * LIMIT_MS));
  await run.result();
  expect(hangs).toEqual([]);

  const off = watched({ watchdogMs: null, watchdogPhaseMs: {} });
  const slow = await train(...asCall(off.given));
  const model = off.given.engine.model!;
  const generate = model.generate.bind(model);
  model.generate = async (requests, options) => {
    await new Promise((resolve) => setTimeout(resolve, LIMIT_MS));
    return generate(requests, options);
  };
  for (let i = 0; i < 3; i++) await slow.next();
  await slow.return();
  expect(off.hangs).toEqual([]);
});

describe('limits', () => {
  const phaseLimitMs = (phase: Phase, given: Config, size: ModelSize | null, longestMs: number) =>
    limitMs(phase, given, silencesOf(given)(phase, size), longestMs);
  const config = resolveConfig([{ model: 'tiny' }]);
  const model = { parameters: 1.7e9, layers: 28, maxPositions: 40_960, cuda: false, samplerReports: true };

  test('are never below watchdogMs or 20 times the longest silence so far', () => {
    for (const phase of PHASES) {
      expect(phaseLimitMs(phase, config, null, 0)).toBeGreaterThanOrEqual(config.watchdogMs!);
      expect(phaseLimitMs(phase, config, model, 1e7)).toBeGreaterThanOrEqual(2e8);
    }
  });

  const long = { ...config, maxCompletionLength: 8_192, evalMaxNewTokens: 16_384 };

  test('of a sampler that reports only completions allow for the whole length of one', () => {
    const silent = { ...model, samplerReports: false };
    // Per token, 4 bytes of each of 1.7e9 parameters at 1 GB/s.
    expect(phaseLimitMs('generate', long, silent, 0)).toBeCloseTo(8_192 * 6_800, 0);
    expect(phaseLimitMs('generate', long, { ...silent, maxPositions: 100_000 / 6.8 }, 0)).toBeLessThan(1e8);
    expect(phaseLimitMs('generate', long, { ...silent, cuda: true }, 0)!).toBeCloseTo(
      (8_192 * 6_800) / 20,
      0,
    );
  });

  test('of the engine depend on eight tokens and the longest prompt, not on the length of a sequence', () => {
    // 64 sequences: 1.7e9 parameters of 4 bytes at 1 GB/s, and 2 FLOPs each for 64 rows at 10 GFLOP/s.
    const tokenMs = 6_800 + 21_760;
    // A layer of the longest prompt, which may have 40,960 - 8,192 tokens, at 4 FLOPs a parameter.
    const layerMs = (4 * 1.7e9 * 32_768) / 1e7 / 28;
    expect(phaseLimitMs('generate', long, model, 0)).toBeCloseTo(8 * tokenMs + layerMs, 0);
    const short = { ...long, maxPromptLength: 512, maxSlots: 16 };
    // Prompts are read together up to 2,048 tokens; the limit is then that of every phase.
    expect(phaseLimitMs('generate', short, model, 0)).toBe(config.watchdogMs);
    for (const phase of ['baseEvaluation', 'evaluation'] as const) {
      expect(phaseLimitMs(phase, long, model, 0)).toBeCloseTo(
        8 * tokenMs + (4 * 1.7e9 * 40_960) / 1e7 / 28,
        0,
      );
      // A GPU is given 64 prompts before the host looks.
      expect(phaseLimitMs(phase, long, { ...model, cuda: true }, 0)).toBeCloseTo(
        8 * (340 + 217.6) + (4 * 1.7e9 * 64 * 2_048) / 1e9,
        0,
      );
    }
    expect(phaseLimitMs('generate', long, { ...model, cuda: true }, 0)).toBe(config.watchdogMs);
  });

  test('given for a phase are used as they are; null switches it off', () => {
    const given = { ...config, watchdogPhaseMs: { generate: 5, train: null } };
    expect(phaseLimitMs('generate', given, model, 1e9)).toBe(5);
    expect(phaseLimitMs('train', given, model, 0)).toBeNull();
    expect(phaseLimitMs('train', { ...config, watchdogMs: null }, model, 0)).toBeNull();
  });

  test('of an unknown phase are refused with the nearest name', () => {
    expect(() => resolveConfig([{ watchdogPhaseMs: { generat: 5 } as never }])).toThrow(
      /watchdogPhaseMs\.generat: unknown setting.*generate/,
    );
  });
});

describe('a limit on code that blocks', () => {
  test('ends an endless loop and an endless regular expression', () => {
    expect(
      withinTime(50, () => {
        for (;;);
      }),
    ).toBeNull();
    expect(withinTime(50, () => /^(a+)+$/.test(`${'a'.repeat(60)}b`))).toBeNull();
  });

  test('returns what the code returns and throws what it throws', () => {
    const thrown = new TypeError('own');
    expect(withinTime(1_000, () => 7)).toEqual({ value: 7 });
    expect(withinTime(1_000, () => withinTime(1_000, () => null))).toEqual({ value: { value: null } });
    const throws = () => {
      throw thrown;
    };
    expect(() => withinTime(1_000, throws)).toThrow(thrown);
  });

  test('gives an endless verifier the verdict timeout', () => {
    const verdict = (): never => {
      for (;;);
    };
    const endless = gradeBuiltIn({ ...builtInJudge({ judge: 'math', judgeParams: {} }), verdict }, BOXED, 50);
    const problem = { id: '0', question: '', gold: '1', level: null };
    const thought = { thinkingTokens: 0, thinkingClosed: true };
    expect(endless({ text: '\\boxed{x}', ...thought }, problem)).toEqual({
      verdict: { correct: false, status: 'timeout', extracted: null },
      format: false,
    });
    expect(gradeMath({ text: '</think>\\boxed{1}', ...thought }, problem)).toMatchObject({
      verdict: { correct: true },
    });
  });

  test('a reward that loops fails the run, naming the sample, and the run can be resumed', async () => {
    let endless = true;
    registerReward('loops', (rollout) => {
      while (endless && rollout.sample === 2);
      return rollout.correct ? 1 : 0;
    });
    const given = fakeRun({ ...settings(), reward: 'loops', rewardTimeoutMs: 100 });
    const ended = (await train(...asCall(given))).result();
    await expect(ended).rejects.toMatchObject({ code: 'REWARD_FAILED' });
    await expect(ended).rejects.toThrow(
      /Reward "loops" failed on sample 2 of prompt 0 .*no answer within 100 ms/,
    );
    endless = false;
    await resume(given.out);
  });

  test('a timer of awake time can be cancelled', async () => {
    let expired = 0;
    const cancel = awakeTimer(30, () => expired++);
    const second = new Promise<void>((resolve) => {
      awakeTimer(30, () => {
        expired++;
        resolve();
      });
    });
    cancel();
    await second;
    expect(expired).toBe(1);
  });
});
