/** The loop when memory runs out: smaller passes and fewer slots, the same run. On the fake engine. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { resolveConfig } from '../../src/config';
import { train, type TrainEvent } from '../../src/train';
import { NOTHING_LEARNT, stillLearnt, type LearntLimits } from '../../src/grpo/memory';
import { readMetrics } from '../../src/run';
import type { StepMetrics } from '../../src/base/types';
import { FakeEngine, type FakeFaults } from '../helpers/fake-engine';
import { failureOf } from '../helpers/engine-calls';
import { fakeRun, metricsOf, newFolder, removeFakeRuns } from '../helpers/fake-run';
import { untimedFiles } from '../helpers/run-files';
import { asCall, type Given } from '../helpers/given';

afterAll(removeFakeRuns);

const SETTINGS: Given = {
  maxSteps: 6,
  promptsPerStep: 2,
  numGenerations: 8,
  numIterations: 2,
  beta: 0.02,
  microBatchTokens: 4096,
  evalSteps: 3,
  evalProblems: 8,
  evalSampledProblems: 8,
  saveSteps: 1,
};

interface Whole {
  folder: string;
  engine: FakeEngine;
  warnings: string[];
}

async function runWhole(faults: FakeFaults, more: Given = {}): Promise<Whole> {
  const engine = new FakeEngine(faults);
  const warnings: string[] = [];
  const onEvent = (event: TrainEvent) => {
    if (event.type === 'warning') warnings.push(event.message);
  };
  const options = fakeRun({ ...SETTINGS, onEvent, ...more, engine });
  await (await train(...asCall(options))).result();
  return { folder: options.out, engine, warnings };
}

const numbers = (folder: string) => readMetrics(join(folder, 'metrics.jsonl'));

/** Equal up to rounding, apart from the number of passes a step took. */
function expectSameRun(actual: StepMetrics[], expected: StepMetrics[]): void {
  expect(actual).toHaveLength(expected.length);
  actual.forEach((line, i) => {
    expect(Object.keys(line)).toEqual(Object.keys(expected[i]!));
    for (const [name, value] of Object.entries(line)) {
      if (name === 'micro_batches') continue;
      const wanted = expected[i]![name]!;
      expect(Math.abs(value! - wanted)).toBeLessThanOrEqual(1e-9 * Math.max(1, Math.abs(wanted)));
    }
  });
}

let plain: Whole;
beforeAll(async () => {
  plain = await runWhole({});
});

test.each([
  ['training', { trainingTokens: 200 }, 'memory/micro_batch_tokens'],
  ['scoring', { scoringTokens: 200 }, 'memory/micro_batch_tokens'],
  ['rollout', { slots: 5 }, 'memory/max_slots'],
] as const)('out of memory in %s: the run is the same', async (phase, faults, metric) => {
  const { folder, warnings } = await runWhole(faults);
  expectSameRun(metricsOf(folder), metricsOf(plain.folder));
  const limits = numbers(folder).map((line) => line[metric]!);
  // The limit is learnt in the first step and kept.
  expect(limits[0]).toBeLessThan(numbers(plain.folder)[0]![metric]!);
  expect(new Set(limits).size).toBe(1);
  expect(warnings.filter((message) => message.includes(`Out of memory in ${phase}`)).length).toBeGreaterThan(
    0,
  );
  expect(warnings.filter((message) => message.includes('evaluation')).length > 0).toBe(phase === 'rollout');
});

test('a failed attempt leaves nothing in the gradient, the sums or the counts', async () => {
  const { folder, engine } = await runWhole({ trainingTokens: 200 });
  const batches = engine.model!.policy!.passes.map((batch) => batch.ids.length);
  expect(Math.max(...batches)).toBeLessThanOrEqual(200);
  const last = numbers(folder).at(-1)!;
  expect(last['micro_batches']).toBeGreaterThan(numbers(plain.folder).at(-1)!['micro_batches']!);
});

test('when a pass fails after one that succeeded, what that one added is removed', async () => {
  const { folder, warnings } = await runWhole({ trainingCall: 2 }, { microBatchTokens: 150 });
  expect(warnings.filter((message) => message.includes('Out of memory in training'))).toHaveLength(1);
  expectSameRun(metricsOf(folder), metricsOf(plain.folder));
});

test('each completion is passed on once, even if some were generated again', async () => {
  const decoded: number[] = [];
  await runWhole(
    { slots: 1 },
    {
      evalProblems: 0,
      evalSampledProblems: 0,
      onEvent: (event) => {
        if (event.type !== 'decode-progress' || event.step !== 1) return;
        if (event.done !== (decoded.at(-1) ?? 0)) decoded.push(event.done);
      },
    },
  );
  expect(decoded).toEqual(Array.from({ length: 16 }, (_, i) => i + 1));
});

describe('a limit that was learnt', () => {
  const faults = { trainingTokens: 200, scoringTokens: 300, slots: 5 };

  test('is stored in checkpoints and holds after resuming', async () => {
    const { folder } = await runWhole(faults, { maxSteps: 3 });
    const path = join(folder, 'checkpoints', 'step-000003', 'state.json');
    const { loop } = JSON.parse(readFileSync(path, 'utf8')) as {
      loop: { memory: LearntLimits };
    };
    expect(loop.memory).toEqual({
      microBatchTokens: numbers(folder).at(-1)!['memory/micro_batch_tokens'],
      maxSlots: numbers(folder).at(-1)!['memory/max_slots'],
    });
    const { tokenizer, trainData, evalData } = fakeRun();
    const warnings: string[] = [];
    const resumed = await train(
      { maxSteps: 5 },
      {
        resume: folder,
        tokenizer,
        trainData,
        evalData,
        engine: new FakeEngine(faults),
        onEvent: (event) => {
          if (event.type === 'warning') warnings.push(event.message);
        },
      },
    );
    await resumed.result();
    expect(warnings.filter((message) => /training|scoring|rollout/.test(message))).toEqual([]);
    expect(numbers(folder).map((line) => line['memory/max_slots'])).toEqual(
      new Array(5).fill(loop.memory.maxSlots),
    );
  });

  test('gives the same files when the run is stopped and resumed after every step', async () => {
    const whole = await runWhole(faults);
    const options = fakeRun({ ...SETTINGS, engine: new FakeEngine(faults), out: newFolder() });
    let run = await train(...asCall(options));
    for (let stops = 0; stops < 20; stops++) {
      await run.next();
      run.stop();
      const ended = await run.result().catch((error: { code: string }) => error.code);
      if (ended !== 'INTERRUPTED') break;
      const { tokenizer, trainData, evalData } = fakeRun();
      run = await train(
        {},
        { resume: options.out, tokenizer, trainData, evalData, engine: new FakeEngine(faults) },
      );
    }
    expect(untimedFiles(options.out)).toEqual(untimedFiles(whole.folder));
  });

  test('no longer holds when settings about memory change', () => {
    const config = resolveConfig([{}]);
    const learnt = { microBatchTokens: 100, maxSlots: 3 };
    expect(stillLearnt(learnt, config, { ...config, saveSteps: 7 })).toEqual(learnt);
    expect(stillLearnt(learnt, config, { ...config, memoryLimitBytes: 1e9 })).toEqual(NOTHING_LEARNT);
    expect(stillLearnt(learnt, config, { ...config, microBatchTokens: 7 })).toEqual(NOTHING_LEARNT);
    // A checkpoint from before limits were stored.
    expect(stillLearnt(undefined, config, config)).toEqual(NOTHING_LEARNT);
  });
});

describe('what cannot be made smaller', () => {
  async function failing(faults: FakeFaults, more: Given = {}) {
    const options = fakeRun({ ...SETTINGS, ...more, engine: new FakeEngine(faults) });
    const run = await train(...asCall(options));
    return { folder: options.out, error: await failureOf(() => run.result()) };
  }

  test.each([
    ['a sequence in training', { trainingTokens: 10 }, /training on one sequence of \d+ tokens/],
    ['a sequence in scoring', { scoringTokens: 10 }, /scoring on one sequence of \d+ tokens/],
    ['a completion', { slots: 0 }, /one completion at a time/],
    ['the optimiser', { stepWithoutMemory: 2 }, /training in the optimiser/],
  ] as const)('%s: the run ends, says what to do and can be resumed', async (_, faults, message) => {
    const { folder, error } = await failing(faults, { evalProblems: 0, evalSampledProblems: 0 });
    expect(error.code).toBe('OUT_OF_MEMORY');
    expect(error.message).toMatch(message);
    expect(error.message).toContain(`acoer train --resume ${folder}`);
    expect(error.message).toMatch(/lower maxCompletionLength/);
    const { tokenizer, trainData, evalData } = fakeRun();
    await (
      await train({}, { resume: folder, tokenizer, trainData, evalData, engine: new FakeEngine() })
    ).result();
    const clean = await runWhole({}, { evalProblems: 0, evalSampledProblems: 0 });
    expect(metricsOf(folder)).toEqual(metricsOf(clean.folder));
  });

  test('an evaluation names its own setting', async () => {
    const { error } = await failing({ slots: 0 });
    expect(error.message).toMatch(/evaluation.*lower evalMaxNewTokens/);
  });
});
