import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AcoerError } from '../../src/base/errors';
import { recordingLoss } from '../helpers/recording-loss';
import { train, type RunSummary, type TrainEvent, type TrainRun } from '../../src/train';
import { registerReward } from '../../src/rewards/registry';
import { readCompletions, readMetrics } from '../../src/run';
import type { StepMetrics } from '../../src/base/types';
import { FakeEngine } from '../helpers/fake-engine';
import { fakeDataset, fakeEvaluation, fakeTokenizer } from '../helpers/fake-tokenizer';
import { asCall, type Given } from '../helpers/given';

const root = mkdtempSync(join(tmpdir(), 'acoer-train-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let runs = 0;
const newFolder = () => join(root, `run-${runs++}`);

const settings = {
  maxSteps: 12,
  maxCompletionLength: 40,
  // The fake's gradients are small; at this rate its parameters move.
  learningRate: 100,
  evalProblems: 20,
  evalSampledProblems: 20,
  evalMaxNewTokens: 60,
  saveSteps: 5,
  completionsSteps: 4,
} as const;

function options(more: Given = {}) {
  const engine = new FakeEngine();
  const parts = {
    engine,
    tokenizer: fakeTokenizer,
    trainData: fakeDataset(30),
    evalData: fakeEvaluation(30),
  };
  return { ...settings, ...parts, out: newFolder(), ...more, engine };
}

/** Options to resume the run in `folder` on another engine. */
function resuming(folder: string) {
  const { engine, tokenizer, trainData, evalData } = options();
  return { resume: folder, engine, tokenizer, trainData, evalData };
}

const untimed = (lines: StepMetrics[]) =>
  lines.map((line) =>
    Object.fromEntries(Object.entries(line).filter(([name]) => !/^(step_time$|time\/|memory\/)/.test(name))),
  );

const failureOf = (run: TrainRun): Promise<unknown> =>
  run.result().then(
    () => null,
    (error: unknown) => error,
  );

const metricsOf = (folder: string) => untimed(readMetrics(join(folder, 'metrics.jsonl')));

async function runWhole(more: Given = {}): Promise<{ folder: string; summary: RunSummary }> {
  const whole = options(more);
  const summary = await (await train(...asCall(whole))).result();
  return { folder: whole.out, summary };
}

describe('a run', () => {
  test('yields steps one by one, then its summary, and leaves its files', async () => {
    const given = options();
    const run = await train(...asCall(given));
    expect(existsSync(join(given.out, 'config.json'))).toBe(true);
    const indices: number[] = [];
    for await (const step of run) {
      indices.push(step.index);
      expect(step.metrics.step).toBe(step.index);
    }
    expect(indices).toEqual(Array.from({ length: 12 }, (_, i) => i + 1));
    const summary = await run.result();
    expect(summary.base.greedy!.n).toBe(20);
    expect(summary.trained.sampled!.thinkingTokens).not.toBe(summary.base.sampled!.thinkingTokens);
    expect(JSON.parse(readFileSync(join(given.out, 'summary.json'), 'utf8'))).toEqual(
      JSON.parse(JSON.stringify(summary)),
    );
    expect(readdirSync(given.out).sort()).toEqual([
      'checkpoints',
      'completions',
      'config.json',
      'evaluations',
      'final',
      'metrics.jsonl',
      'progress.json',
      'summary.json',
      'tensorboard',
    ]);
    expect(readdirSync(join(given.out, 'checkpoints'))).toEqual([
      'step-000005',
      'step-000010',
      'step-000012',
    ]);
    expect(readdirSync(join(given.out, 'completions'))).toEqual(
      ['step-000004', 'step-000008', 'step-000012'].map((s) => `${s}.parquet`),
    );
    const answers = (step: number) =>
      readCompletions(join(given.out, 'evaluations', `step-${String(step).padStart(6, '0')}-greedy.parquet`));
    const accuracyOf = (rows: readonly { correct: boolean }[]) =>
      rows.filter(({ correct }) => correct).length / rows.length;
    expect(accuracyOf(await answers(0))).toBe(summary.base.greedy!.accuracy);
    expect(accuracyOf(await answers(12))).toBe(summary.trained.greedy!.accuracy);
    expect((await answers(0)).map(({ problemId }) => problemId)).toEqual(
      (await answers(12)).map(({ problemId }) => problemId),
    );
    expect(readdirSync(join(given.out, 'final')).sort()).toEqual([
      'README.md',
      'adapter_config.json',
      'adapter_model.safetensors',
      'generation_config.json',
      'identity.json',
      'tokenizer.json',
      'tokenizer_config.json',
    ]);
    expect(given.engine.model!.disposed).toBe(true);
    expect(given.engine.model!.policy!.disposed).toBe(true);
    expect(given.engine.disposed).toBe(false);
  });

  test('names its metrics as TRL does', async () => {
    const { folder } = await runWhole({ beta: 0.01 });
    const [first, last] = [metricsOf(folder)[0]!, metricsOf(folder).at(-1)!];
    for (const name of [
      'step',
      'loss',
      'grad_norm',
      'learning_rate',
      'epoch',
      'num_tokens',
      'reward',
      'reward_std',
      'kl',
      'entropy',
      'frac_reward_zero_std',
      'completions/mean_length',
      'completions/clipped_ratio',
      'completions/max_terminated_length',
      'rewards/acoer/mean',
      'rewards/acoer/std',
      'rewards/format/mean',
      'clip_ratio/low_mean',
      'clip_ratio/region_mean',
      'sampling/sampling_logp_difference/mean',
      'sampling/sampling_logp_difference/max',
      'accuracy/mean',
      'thinking/mean',
      'acoer/alpha',
      'acoer/budget',
    ])
      expect(last).toHaveProperty([name]);
    expect(first.learning_rate).toBe(0);
    // The fake's sampler and trainer agree up to rounding.
    expect(last['sampling/sampling_logp_difference/max']).toBeLessThan(1e-12);
    // Each step takes 8 prompts of 30 problems.
    expect(last.epoch).toBeCloseTo((12 * 8) / 30, 12);
  });

  test('two runs are equal with the same seed, and differ with different seeds', async () => {
    const [a, b, c] = [await runWhole({ seed: 3 }), await runWhole({ seed: 3 }), await runWhole({ seed: 4 })];
    expect(metricsOf(a.folder)).toEqual(metricsOf(b.folder));
    expect(metricsOf(a.folder)).not.toEqual(metricsOf(c.folder));
  });

  test('splitting an update into micro-batches changes nothing but rounding', async () => {
    const whole = metricsOf((await runWhole({ scaleRewards: 'none' })).folder);
    const cut = metricsOf((await runWhole({ scaleRewards: 'none', microBatchTokens: 120 })).folder);
    expect(cut[5]!.micro_batches).toBeGreaterThan(whole[5]!.micro_batches!);
    whole.forEach((line, i) => {
      expect(cut[i]!.grad_norm).toBeCloseTo(line.grad_norm!, 10);
      expect(cut[i]!.loss).toBeCloseTo(line.loss!, 10);
    });
  });

  test('using the same folder twice is refused', async () => {
    const { folder } = await runWhole({ maxSteps: 1 });
    await expect(train(...asCall(options({ out: folder })))).rejects.toMatchObject({ code: 'RUN_EXISTS' });
  });

  test('an unknown setting or reward is refused before anything is written', async () => {
    for (const bad of [{ learningrate: 1 }, { reward: 'acoerr' }, { rewardParams: { acoer: { nope: 1 } } }]) {
      const out = newFolder();
      await expect(train(...asCall(options({ ...(bad as Given), out })))).rejects.toMatchObject({
        code: 'BAD_CONFIG',
      });
      expect(existsSync(out)).toBe(false);
    }
  });
});

test('a model that cannot be loaded leaves no run behind, and a folder as it was', async () => {
  const given = options();
  const failure = new AcoerError('BAD_FILE', 'model.safetensors is cut off');
  given.engine.loadModel = () => Promise.reject(failure);
  await expect(train(...asCall(given))).rejects.toBe(failure);
  expect(existsSync(given.out)).toBe(false);
  mkdirSync(given.out);
  writeFileSync(join(given.out, 'notes.txt'), 'mine');
  await expect(train(...asCall(given))).rejects.toBe(failure);
  expect(readdirSync(given.out)).toEqual(['notes.txt']);
});

describe('zero-variance groups', () => {
  const sure: Given = { reward: [{ name: 'acc', weight: 0 }], formatWeight: 0 };

  test('are skipped when beta is 0, and the optimiser still steps', async () => {
    const given = options({ ...sure, maxSteps: 3 });
    const run = await train(...asCall(given));
    for await (const { metrics } of run) {
      expect(metrics.frac_reward_zero_std).toBe(1);
      expect(metrics).toMatchObject({
        loss: 0,
        grad_norm: 0,
        micro_batches: 0,
        skipped_sequences: 32,
        update_applied: 1,
      });
      expect(metrics.entropy).toBeGreaterThan(0);
    }
    expect(given.engine.model!.policy!.passes).toHaveLength(0);
  });

  test('still feel the KL term', async () => {
    const loss = recordingLoss('dapo');
    const given = options({ ...sure, maxSteps: 3, beta: 0.1, lossType: loss.name });
    for await (const { metrics } of await train(...asCall(given))) expect(metrics.skipped_sequences).toBe(0);
    expect(loss.batches[0]!.refLogprobs).not.toBeNull();
  });

  test('count in the normaliser', async () => {
    const loss = recordingLoss('grpo');
    const given = options({ maxSteps: 4, lossType: loss.name, reward: 'acc', maxCompletionLength: 60 });
    await (await train(...asCall(given))).result();
    expect(new Set(loss.normalizers)).toEqual(new Set([32]));
    const lines = metricsOf(given.out);
    expect(lines.some((line) => line.skipped_sequences! > 0)).toBe(true);
  });
});

test('truncated completions are masked when asked', async () => {
  const loss = recordingLoss('bnpo');
  const given = options({
    maxSteps: 2,
    maskTruncatedCompletions: true,
    maxCompletionLength: 25,
    lossType: loss.name,
  });
  await (await train(...asCall(given))).result();
  const lines = metricsOf(given.out);
  expect(lines[0]!['completions/clipped_ratio']).toBeGreaterThan(0);
  expect(loss.batches.length).toBeGreaterThan(0);
  expect(loss.batches.every((batch) => batch.mask.every((bit) => bit === 1))).toBe(true);
});

describe('references that cannot be read', () => {
  const unreadable = (holds: (row: number) => boolean) => {
    const data = fakeDataset(30);
    const get = (row: number) => (holds(row) ? { ...data.get(row), gold: '\\int_0^1 f' } : data.get(row));
    return { ...data, size: data.size, get };
  };

  test('are left out of loss and accuracy, and are counted', async () => {
    const given = options({ maxSteps: 6, promptsPerStep: 4, numGenerations: 8, reward: 'acc' });
    await (await train(...asCall({ ...given, trainData: unreadable((row) => row % 2 === 0) }))).result();
    const lines = metricsOf(given.out);
    const shares = lines.map((line) => line['accuracy/gold_unparseable']!);
    expect(shares.some((value) => value > 0 && value < 1)).toBe(true);
    for (const line of lines) {
      expect(line.skipped_sequences).toBeGreaterThanOrEqual(32 * line['accuracy/gold_unparseable']!);
      expect(line['accuracy/mean']).toBeGreaterThanOrEqual(0);
    }
  });

  test('change nothing when they fill a whole batch', async () => {
    const given = options({ maxSteps: 2 });
    await (await train(...asCall({ ...given, trainData: unreadable(() => true) }))).result();
    for (const line of metricsOf(given.out)) {
      expect(line).toMatchObject({
        'accuracy/gold_unparseable': 1,
        'accuracy/mean': 0,
        loss: 0,
        micro_batches: 0,
      });
    }
  });
});

describe('several updates per generated batch', () => {
  const several = { stepsPerGeneration: 2, numIterations: 2, promptsPerStep: 4 } as const;

  test('generate once, keep the old log-probs, and advance the controller once', async () => {
    const loss = recordingLoss('dapo');
    const lossType = loss.name;
    const given = options({ ...several, lossType, maxSteps: 10, evalProblems: 0, evalSampledProblems: 0 });
    const states: number[] = [];
    for await (const { metrics } of await train(...asCall(given)))
      states.push(metrics['acoer/ema_accuracy'] ?? NaN);
    // 4 updates each, and the last 2.
    expect(given.engine.model!.generateCalls).toBe(3);
    expect(loss.batches.every((batch) => batch.oldLogprobs !== null)).toBe(true);
    expect(new Set(states.slice(0, 4)).size).toBe(1);
    expect(new Set(states).size).toBe(3);
  });

  test('checkpoints are written when asked for, also within a generated batch', async () => {
    const { folder } = await runWhole({ ...several, maxSteps: 10, saveSteps: 3 });
    const names = readdirSync(join(folder, 'checkpoints'));
    expect(names).toEqual(['step-000003', 'step-000006', 'step-000009', 'step-000010']);
    const within = names.filter((name) =>
      existsSync(join(folder, 'checkpoints', name, 'rollouts.safetensors')),
    );
    expect(within).toEqual(names);
  });
});

test('evaluations between steps change nothing: weights, optimiser, controller, data order, every other metric', async () => {
  const more = { reward: 'acoer', rewardParams: { acoer: { warmupSteps: 2 } }, saveSteps: 4 } as const;
  const [without, evaluated] = [await runWhole(more), await runWhole({ ...more, evalSteps: 3 })];
  const plain = (lines: StepMetrics[]) =>
    lines.map((line) =>
      Object.fromEntries(Object.entries(line).filter(([name]) => !name.startsWith('eval/'))),
    );
  expect(metricsOf(evaluated.folder).filter((line) => 'eval/greedy_accuracy' in line)).toHaveLength(4);
  expect(plain(metricsOf(evaluated.folder))).toEqual(plain(metricsOf(without.folder)));
  for (const step of ['step-000004', 'step-000008', 'step-000012']) {
    const read = (run: { folder: string }, name: string) =>
      readFileSync(join(run.folder, 'checkpoints', step, name), 'utf8');
    for (const name of ['adapter_model.safetensors', 'optimizer.safetensors', 'adapter_config.json']) {
      expect(read(evaluated, name)).toBe(read(without, name));
    }
    // The state also holds the last evaluation, so compare only its loop: rewards' states, position, step.
    const loop = (run: { folder: string }) => (JSON.parse(read(run, 'state.json')) as { loop: unknown }).loop;
    expect(JSON.stringify(loop(evaluated))).toBe(JSON.stringify(loop(without)));
  }
  for (const name of ['step-000004.parquet', 'step-000012.parquet']) {
    const table = (run: { folder: string }) => readFileSync(join(run.folder, 'completions', name));
    expect(table(evaluated).equals(table(without))).toBe(true);
  }
  expect(evaluated.summary.trained).toEqual(without.summary.trained);
});

describe('resuming', () => {
  const cases: [string, Given][] = [
    ['one update per batch', {}],
    ['four updates per batch', { stepsPerGeneration: 2, numIterations: 2, promptsPerStep: 4, maxSteps: 14 }],
    ['with evaluations and a KL term', { evalSteps: 3, beta: 0.02, lossType: 'grpo' }],
  ];

  test.each(cases)('after an abort equals an uninterrupted run: %s', async (_, more) => {
    const whole = await runWhole(more);
    const controller = new AbortController();
    const given = options({ ...more, signal: controller.signal });
    const steps = (async () => {
      for await (const { index } of await train(...asCall(given))) if (index === 7) controller.abort();
    })();
    await expect(steps).rejects.toMatchObject({ code: 'INTERRUPTED' });
    expect(existsSync(join(given.out, 'summary.json'))).toBe(false);
    const summary = await (await train(...asCall(resuming(given.out)))).result();
    expect(metricsOf(given.out)).toEqual(metricsOf(whole.folder));
    expect({ ...summary, run: null }).toEqual({ ...whole.summary, run: null });
  });

  test('after a crash continues from the last checkpoint', async () => {
    const whole = await runWhole();
    const given = options();
    const run = await train(...asCall(given));
    for await (const { index } of run) if (index === 8) break;
    // Removes the checkpoint written on leaving, as if the process had been killed.
    rmSync(join(given.out, 'checkpoints', 'step-000008'), { recursive: true });
    const resumed = await train(...asCall(resuming(given.out)));
    const first = await resumed.next();
    expect(first.value!.index).toBe(6);
    await resumed.result();
    expect(metricsOf(given.out)).toEqual(metricsOf(whole.folder));
  });

  test('a run left early has no summary; a failed one throws its error again', async () => {
    const given = options();
    const left = await train(...asCall(given));
    for await (const { index } of left) if (index === 2) break;
    const gone = left.result();
    await expect(gone).rejects.toMatchObject({ name: 'AcoerError', code: 'INTERRUPTED' });
    await expect(gone).rejects.toThrow(`resume with: acoer train --resume ${given.out}`);

    const stopped = await train(...asCall(resuming(given.out)));
    stopped.stop();
    const [first, second] = [await failureOf(stopped), await failureOf(stopped)];
    expect(first).toMatchObject({ code: 'INTERRUPTED' });
    expect(second).toBe(first);
  });

  test('without a checkpoint starts over', async () => {
    const whole = await runWhole();
    const given = options();
    for await (const { index } of await train(...asCall(given))) if (index === 3) break;
    rmSync(join(given.out, 'checkpoints'), { recursive: true });
    await (await train(...asCall(resuming(given.out)))).result();
    expect(metricsOf(given.out)).toEqual(metricsOf(whole.folder));
  });

  test('a finished run has nothing left to do', async () => {
    const whole = await runWhole({ maxSteps: 2 });
    const said: string[] = [];
    const onEvent = (event: TrainEvent) => event.type === 'warning' && said.push(event.message);
    const run = await train(...asCall({ ...resuming(whole.folder), onEvent }));
    expect(said).toEqual([`${whole.folder} has made all of its 2 steps: nothing is left to do.`]);
    expect(await run.next()).toEqual({ done: true, value: undefined });
    expect(await run.result()).toEqual(JSON.parse(JSON.stringify(whole.summary)));
  });

  test('after an interrupt in the last evaluation loses no step', async () => {
    const whole = await runWhole();
    const controller = new AbortController();
    const onEvent = (event: TrainEvent) => {
      if (event.type === 'eval-progress' && event.phase === 'trained') controller.abort();
    };
    const given = options({ signal: controller.signal, onEvent });
    await expect((await train(...asCall(given))).result()).rejects.toMatchObject({ code: 'INTERRUPTED' });
    const resumed = await train(...asCall(resuming(given.out)));
    const summary = await resumed.result();
    expect(summary.trained).toEqual(whole.summary.trained);
    expect(metricsOf(given.out)).toEqual(metricsOf(whole.folder));
  });

  test('stop ends after the step in progress, with a checkpoint', async () => {
    const given = options();
    const run = await train(...asCall(given));
    const steps: number[] = [];
    const all = (async () => {
      for await (const { index } of run) {
        steps.push(index);
        if (index === 3) run.stop();
      }
    })();
    await expect(all).rejects.toMatchObject({ code: 'INTERRUPTED' });
    expect(steps.at(-1)).toBe(3);
    expect(readdirSync(join(given.out, 'checkpoints'))).toEqual(['step-000003']);
  });
});

test('a table of completions reads back as it was sampled', async () => {
  const given = options({ maxSteps: 4 });
  let last: StepMetrics = {};
  for await (const { metrics } of await train(...asCall(given))) last = metrics;
  const { parquetReadObjects } = await import('hyparquet');
  const { buffer } = new Uint8Array(readFileSync(join(given.out, 'completions', 'step-000004.parquet')));
  const rows = (await parquetReadObjects({ file: buffer })) as Record<string, unknown>[];
  expect(rows).toHaveLength(32);
  const mean = (column: string) => rows.reduce((sum, row) => sum + Number(row[column]), 0) / 32;
  expect(mean('reward')).toBeCloseTo(last.reward!, 12);
  expect(mean('acoer')).toBeCloseTo(last['rewards/acoer/mean']!, 12);
  expect(mean('thinking_tokens')).toBeCloseTo(last['thinking/mean']!, 12);
  expect(mean('correct')).toBeCloseTo(last['accuracy/mean']!, 12);
  expect(mean('advantage')).toBeCloseTo(0, 9);
  expect(rows[0]).toMatchObject({ step: 4, sample: 0, finish: expect.stringMatching(/stop|length/) });
  expect(String(rows[0]!.completion)).toMatch(/^<think>/);
});

test('a reward that throws ends the run with its name, and what was done is kept', async () => {
  let calls = 0;
  registerReward('flaky', () => {
    if (++calls > 100) throw new Error('service down');
    return calls % 2;
  });
  const given = options({ reward: 'flaky' });
  await expect((await train(...asCall(given))).result()).rejects.toThrow(
    /Reward "flaky" failed on sample \d of prompt \d+ .*service down/,
  );
  expect(readdirSync(join(given.out, 'checkpoints'))).toEqual(['step-000003']);
});
