/** A run against TRL's SFTTrainer on the same model, adapter and rows (scripts/fixtures/trl_sft.py). */
import { copyFileSync, cpSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { TensorTable } from '../../src/engine/binding';
import { TINY_MODEL } from '../../src/models';
import { readMetrics } from '../../src/run';
import { sft, type SftEvent, type SftInput, type SftOptions } from '../../src/sft';
import { Batches } from '../../src/sft/step';
import type { Row } from '../../src/base/types';
import {
  adapterDirectory,
  differingTensors,
  modelDirectory,
  readJson,
  readSafetensors,
} from '../helpers/fixtures';

interface Step {
  loss: number;
  learningRate: number;
  gradNorm: number;
  numTokens: number;
}

const FIXTURE = resolve(__dirname, '../fixtures/sft');
const fixture = readJson<{ rows: Row[]; settings: SftInput; steps: Step[] }>('../sft/training.json');

const root = mkdtempSync(join(tmpdir(), 'acoer-sft-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** The random model with the embedded model's tokenizer. */
const model = join(root, 'model');
beforeAll(() => {
  cpSync(modelDirectory('tied-kv2'), model, { recursive: true });
  for (const name of readdirSync(TINY_MODEL)) {
    if (!/\.safetensors$|^config\.json$/.test(name)) copyFileSync(join(TINY_MODEL, name), join(model, name));
  }
});

let runs = 0;
async function trained(more: SftInput = {}, given: SftOptions = {}) {
  const out = join(root, `run-${runs++}`);
  const own = { model, adapter: adapterDirectory('all-r4'), maxLength: 512, device: 'cpu', threads: 1 };
  const summary = await sft(
    { ...fixture.settings, ...own, ...more },
    { dataset: fixture.rows, out, ...given },
  );
  const adapter = readSafetensors(join(out, 'final', 'adapter_model.safetensors'));
  return { out, summary, adapter: adapter as TensorTable, lines: readMetrics(join(out, 'metrics.jsonl')) };
}

/** float32 twice, in another order of operations; a learning rate of 5e-3 carries it into the weights. */
const WEIGHTS = 2e-4;
const FIGURES = 1e-5;

const wrongFigures = (lines: Awaited<ReturnType<typeof trained>>['lines']) =>
  fixture.steps.flatMap(({ loss, gradNorm, learningRate, numTokens }, i) => {
    const line = lines[i]!;
    const errors = {
      loss: Math.abs(line.loss! / loss - 1),
      gradNorm: Math.abs(line.grad_norm! / gradNorm - 1),
      learningRate: Math.abs(line.learning_rate! - learningRate) / 5e-3,
      numTokens: Math.abs(line.num_tokens! - numTokens),
    };
    const wrong = Object.entries(errors).filter(([, error]) => !(error <= FIGURES));
    return wrong.map(([name, error]) => `step ${i + 1}: ${name} is off by ${error.toExponential(1)}`);
  });

test("losses, norms, rates and the adapter are TRL's", async () => {
  const { lines, adapter, summary, out } = await trained();
  expect(lines).toHaveLength(fixture.steps.length);
  expect(wrongFigures(lines)).toEqual([]);
  const expected = readSafetensors(join(FIXTURE, 'adapter.safetensors')) as TensorTable;
  expect(differingTensors(adapter, expected, WEIGHTS)).toEqual([]);
  // The tolerance tells training from none.
  const before = readSafetensors(join(adapterDirectory('all-r4'), 'adapter_model.safetensors'));
  expect(differingTensors(before as TensorTable, expected, 50 * WEIGHTS)).not.toEqual([]);
  expect(summary).toEqual({
    run: { directory: out, method: 'sft', full: false, seed: 42, steps: 6, examples: 6 },
    loss: { first: lines[0]!.loss, last: lines[5]!.loss },
    numTokens: lines[5]!.num_tokens,
  });
});

test('the split into passes does not change the result', async () => {
  const { lines, adapter } = await trained({ microBatchTokens: 40 });
  expect(wrongFigures(lines)).toEqual([]);
  const expected = readSafetensors(join(FIXTURE, 'adapter.safetensors')) as TensorTable;
  expect(differingTensors(adapter, expected, WEIGHTS)).toEqual([]);
});

test('an epoch has every example once, in an order of its own; its last batch may be smaller', () => {
  const examples = Array.from({ length: 7 }, (_, i) => ({
    promptIds: Int32Array.of(i),
    completionIds: Int32Array.of(i),
  }));
  const batches = new Batches(examples, { batchSize: 3, seed: 1 });
  expect(batches.perEpoch).toBe(3);
  const epochs = [0, 1].map((epoch) =>
    [0, 1, 2].map((i) => batches.at(3 * epoch + i).map(({ promptIds }) => promptIds[0]!)),
  );
  for (const epoch of epochs) {
    expect(epoch.map((batch) => batch.length)).toEqual([3, 3, 1]);
    expect(epoch.flat().sort()).toEqual([0, 1, 2, 3, 4, 5, 6]);
  }
  expect(epochs[0]).not.toEqual(epochs[1]);
});

test('examples that are too long are left out and counted once; none left is an error', async () => {
  const events: SftEvent[] = [];
  const onEvent = (event: SftEvent) => void events.push(event);
  const { summary } = await trained({ maxLength: 30, maxSteps: 1 }, { onEvent });
  expect(summary.run.examples).toBe(4);
  expect(events.filter(({ type }) => type === 'warning')).toEqual([
    {
      type: 'warning',
      message: "rows: 2 of 6 examples left out: longer than 30 tokens (maxLength, or the model's context).",
    },
  ]);
  await expect(trained({ maxLength: 2 })).rejects.toMatchObject({
    code: 'BAD_INPUT',
    message: expect.stringMatching(
      /^Nothing is left to train on: all examples of rows are longer than 2 tokens/,
    ) as string,
  });
});

test('a run that is aborted ends with a checkpoint and resumes to the same files; its settings stay', async () => {
  const whole = await trained({ saveSteps: 2, loraDropout: 0.2 });
  const controller = new AbortController();
  const onEvent = (event: SftEvent) => {
    if (event.type === 'step' && event.index === 3) controller.abort();
  };
  const out = join(root, 'aborted');
  await expect(
    trained({ saveSteps: 2, loraDropout: 0.2 }, { out, signal: controller.signal, onEvent }),
  ).rejects.toMatchObject({
    code: 'INTERRUPTED',
    message: `Interrupted after step 3; resume with: acoer sft --resume ${out}`,
  });
  const resume = { resume: out, dataset: fixture.rows };
  await expect(sft({ learningRate: 1 }, resume)).rejects.toMatchObject({
    code: 'BAD_CONFIG',
    message: expect.stringMatching(/^A resumed run cannot change learningRate 0\.005 -> 1: /) as string,
  });
  const others = [...fixture.rows.slice(1), { prompt: '1', completion: '2' }];
  await expect(sft({}, { resume: out, dataset: others })).rejects.toMatchObject({
    code: 'BAD_INPUT',
    message:
      'The training data has changed since the checkpoint of step 3 (rows); restore it, or start a new run.',
  });
  const summary = await sft({}, resume);
  expect({ ...summary, run: null }).toEqual({ ...whole.summary, run: null });
  const adapter = readSafetensors(join(out, 'final', 'adapter_model.safetensors')) as TensorTable;
  expect(differingTensors(adapter, whole.adapter, 0)).toEqual([]);
  expect(await sft({}, resume)).toEqual(summary);
});

test('a loss that is not finite ends the run, and changes nothing', async () => {
  await expect(
    trained({ learningRate: 1e30, lrSchedulerType: 'constant', warmupRatio: 0 }),
  ).rejects.toMatchObject({
    code: 'NOT_FINITE',
    message: expect.stringMatching(
      /^The (loss|gradient) of step \d is not finite, so the step was not made; /,
    ) as string,
  });
});
