/** Evaluations of a supervised run on examples that it is not trained on. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createEngine } from '../../src/engine/engine';
import { resolveModel } from '../../src/models';
import { readMetrics } from '../../src/run';
import { sft, type SftEvent } from '../../src/sft';
import { openSftInputs } from '../../src/sft/inputs';
import { resolveSft } from '../../src/sft/config';
import { packSequences } from '../../src/base/packing';
import { untimedFiles } from '../helpers/run-files';
import { asSftCall, type GivenSft } from '../helpers/given';

const root = mkdtempSync(join(tmpdir(), 'acoer-sft-evaluation-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const sums = Array.from({ length: 20 }, (_, i) => ({
  prompt: `${i % 10}+${i < 10 ? 1 : 2}=`,
  completion: `${(i + (i < 10 ? 1 : 2)) % 10}`,
}));
const settings = (out: string, more: GivenSft = {}): GivenSft => ({
  ...{ model: 'tiny', dataset: sums, batchSize: 4, epochs: 2, threads: 1, device: 'cpu', tensorboard: false },
  ...{ evalExamples: 4, evalSteps: 3, out: join(root, out) },
  ...more,
});
const evaluated = (folder: string) =>
  readMetrics(join(folder, 'metrics.jsonl'))
    .filter((line) => 'eval/loss' in line)
    .map((line) => line.step);

test('held-out examples are evaluated before, every evalSteps steps and after the last', async () => {
  const events: SftEvent[] = [];
  const summary = await sft(...asSftCall(settings('whole', { onEvent: (event) => void events.push(event) })));
  expect(summary.run).toMatchObject({ examples: 16, steps: 8 });
  expect(evaluated(join(root, 'whole'))).toEqual([3, 6, 8]);
  const told = events.flatMap((event) => (event.type === 'held-out' ? [event] : []));
  expect(told.map(({ step }) => step)).toEqual([0, 3, 6, 8]);
  const { base, trained, best, examples } = summary.heldOut!;
  expect(examples).toBe(4);
  expect(base.loss).toBe(told[0]!.loss);
  expect(trained.loss).toBe(told.at(-1)!.loss);
  expect(best).toEqual({
    step: expect.any(Number) as number,
    loss: Math.min(...told.slice(1).map(({ loss }) => loss)),
  });
});

test('the loss is the mean over completion tokens of what the model itself gives', async () => {
  const { heldOut } = await sft(...asSftCall(settings('checked')));
  const config = resolveSft([
    { model: 'tiny', dataset: 'memory:rows', evalExamples: 4, promptTemplate: '{problem}' },
  ]);
  const inputs = await openSftInputs(config, { rows: sums }, {});
  expect(inputs.heldOut).toHaveLength(4);
  const engine = await createEngine({ device: 'cpu', threads: 1 });
  const model = await engine.loadModel((await resolveModel('tiny')).directory);
  const { logprobs, entropies } = await model.score(packSequences(inputs.heldOut));
  const mean = (values: Float64Array) => values.reduce((sum, value) => sum + value, 0) / values.length;
  expect(heldOut!.base.loss).toBeCloseTo(-mean(logprobs), 12);
  expect(heldOut!.base.entropy).toBeCloseTo(mean(entropies), 12);
  await model.dispose();
  await engine.dispose();
});

test('evalDataset is evaluated on instead, and all of dataset is trained on', async () => {
  const evalDataset = [{ prompt: '1+1=', completion: '2' }];
  const summary = await sft(...asSftCall(settings('other', { evalDataset })));
  expect(summary.run.examples).toBe(20);
  expect(summary.heldOut!.examples).toBe(1);
});

test('where training makes it worse, the checkpoint with the lowest loss is kept', async () => {
  const dataset = sums.map(({ prompt }) => ({ prompt, completion: '7' }));
  const evalDataset = [{ prompt: '1+1=', completion: '2' }];
  const losses: number[] = [];
  const onEvent = (event: SftEvent) => {
    if (event.type === 'held-out') losses.push(event.loss);
  };
  const more = { dataset, evalDataset, learningRate: 3e-3, evalSteps: 1, keepCheckpoints: 1, onEvent };
  const { run, heldOut } = await sft(...asSftCall(settings('worse', more)));
  const { base, trained, best } = heldOut!;
  // Its own base: another run in this process had another one.
  expect(losses).toHaveLength(run.steps + 1);
  expect(base.loss).toBe(losses[0]);
  const lowest = losses.indexOf(Math.min(...losses));
  expect(lowest).toBeLessThan(run.steps);
  expect(best).toEqual({ step: lowest, loss: losses[lowest] });
  expect(trained.loss).toBeGreaterThan(best.loss);
  const kept = [lowest, run.steps].map((step) => `step-${String(step).padStart(6, '0')}`);
  expect(readdirSync(join(root, 'worse', 'checkpoints')).sort()).toEqual(kept);

  // A run that is resumed after its best checkpoint still knows it.
  const out = join(root, 'worse-stopped');
  const controller = new AbortController();
  const stopping = (event: SftEvent) => {
    if (event.type === 'step' && event.index === run.steps - 1) controller.abort();
  };
  const options = { ...more, signal: controller.signal, onEvent: stopping };
  const stopped = sft(...asSftCall(settings('worse-stopped', options)));
  await expect(stopped).rejects.toMatchObject({ code: 'INTERRUPTED' });
  expect((await sft({}, { resume: out, dataset, evalDataset })).heldOut!.best).toEqual(best);
});

test('stopped at any step and resumed, its lines, checkpoints and adapter are those of the whole run', async () => {
  await sft(...asSftCall(settings('straight')));
  const files = (folder: string) =>
    new Map([...untimedFiles(folder)].filter(([name]) => !/^progress|^config\.json|state\.json/.test(name)));
  for (const at of [1, 3, 6]) {
    const out = join(root, `stopped-${at}`);
    const controller = new AbortController();
    const onEvent = (event: SftEvent) => {
      if (event.type === 'step' && event.index === at) controller.abort();
    };
    const stopped = sft(...asSftCall({ ...settings(`stopped-${at}`), signal: controller.signal, onEvent }));
    await expect(stopped).rejects.toMatchObject({ code: 'INTERRUPTED' });
    await sft({}, { resume: out, dataset: sums });
    expect(evaluated(out)).toEqual([3, 6, 8]);
    const whole = files(join(root, 'straight'));
    const resumed = files(out);
    for (const name of whole.keys()) if (name.startsWith('checkpoints/')) whole.delete(name);
    for (const name of resumed.keys()) if (name.startsWith('checkpoints/')) resumed.delete(name);
    expect(resumed).toEqual(whole);
  }
});

test.each([
  [{ evalExamples: 20 }, 'evalExamples holds out 20 of the 20 examples of rows, so none is left to train on'],
  [{ evalExamples: 0, evalDataset: 'x.jsonl' }, 'set evalExamples, how many of its examples are evaluated'],
])('%p is refused before anything is written', async (more, message) => {
  await expect(sft(...asSftCall(settings('refused', more)))).rejects.toThrow(message);
});

test('a resumed run cannot hold out other examples', async () => {
  await sft(...asSftCall(settings('kept', { maxSteps: 1 })));
  const resumed = sft({ evalExamples: 5, maxSteps: 2 }, { resume: join(root, 'kept'), dataset: sums });
  await expect(resumed).rejects.toThrow('A resumed run cannot change evalExamples 4 -> 5');
});
