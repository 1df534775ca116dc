/** The plan of a run that trains on given sequences. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { namedDevice, planTraining, plannedModel, assertTrainingFits } from '../../src/plan';
import { sft, type SftEvent } from '../../src/sft';
import { parameterCount } from '../../src/plan/cost';
import { resolveSft } from '../../src/sft/config';

const root = mkdtempSync(join(tmpdir(), 'acoer-plan-training-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const lengths = (tokens: number, count = 64) => ({
  training: Array.from({ length: count }, () => ({ tokens, completionTokens: tokens - 100 })),
  scoring: [],
});
const plan = async (more: object, tokens = 4_000) =>
  planTraining({
    config: resolveSft([{ model: 'tiny', dataset: 'x', ...more }]),
    model: await plannedModel('tiny'),
    device: namedDevice('A6000', 'float32'),
    lengths: lengths(tokens),
  });

test('a pass holds as many of the longest sequences as microBatchTokens allows', async () => {
  expect((await plan({ microBatchTokens: 16_384 })).memory.microBatchTokens).toBe(16_000);
  expect((await plan({ microBatchTokens: 1_000 })).memory.microBatchTokens).toBe(4_000);
  expect((await plan({ microBatchTokens: 16_384, batchSize: 2 })).memory.microBatchTokens).toBe(8_000);
});

test('all weights need their moments and gradients', async () => {
  const { shape } = await plannedModel('tiny');
  const [adapter, full] = await Promise.all([plan({}), plan({ full: true })]);
  const added = full.memory.phaseBytes.always - adapter.memory.phaseBytes.always;
  expect(added).toBeGreaterThan(0);
  expect(full.memory.items).toContainEqual(
    expect.objectContaining({ name: 'trained weights, AdamW moments', bytes: 12 * parameterCount(shape) }),
  );
});

test('what does not fit names the settings with which it does', async () => {
  const model = await plannedModel('tiny');
  const config = resolveSft([{ model: 'tiny', dataset: 'x', microBatchTokens: 65_536, batchSize: 64 }]);
  const whole = namedDevice('A6000', 'float32');
  const input = { config, model, device: whole, lengths: lengths(1_000) };
  expect(planTraining(input).fits).toBe(true);
  // With less memory a pass keeps fewer activations, so just below the peak it still fits.
  const at = (extraBytes: number, more: object = {}) =>
    planTraining({
      ...input,
      config: { ...config, ...more },
      device: { ...whole, freeBytes: always + extraBytes },
    });
  const { always } = planTraining(input).memory.phaseBytes;
  let extraBytes = 1e6;
  while (!at(extraBytes, { microBatchTokens: 32_768 }).fits) extraBytes *= 1.1;
  const short = at(extraBytes);
  expect(short.fits).toBe(false);
  expect(short.changes).toEqual([{ setting: 'microBatchTokens', to: 32_768 }]);
  expect(() => assertTrainingFits(short)).toThrow('try --set microBatchTokens=32768.');
  const none = planTraining({ ...input, device: { ...whole, freeBytes: 1e6 } });
  expect(none.changes).toBeNull();
});

test('a supervised run tells its plan before it loads', async () => {
  const types: string[] = [];
  const onEvent = ({ type }: SftEvent) => void types.push(type);
  const dataset = [{ prompt: '1+2=', completion: '3' }];
  const settings = { model: 'tiny', epochs: 1, threads: 1, device: 'cpu', tensorboard: false };
  await sft(settings, { dataset, out: join(root, 'run'), onEvent });
  expect(types.indexOf('training-plan')).toBeGreaterThan(types.indexOf('run'));
  expect(types.indexOf('training-plan')).toBeLessThan(types.indexOf('loaded'));
});
