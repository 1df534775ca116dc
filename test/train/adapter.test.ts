/** Training that goes on from an adapter, ours or PEFT's. */
import { appendFileSync, cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Config } from '../../src/config';
import { train, type TrainOptions } from '../../src/train';
import { metricsOf } from '../helpers/fake-run';
import { fakeDataset, fakeTokenizer } from '../helpers/fake-tokenizer';
import { adapterDirectory, modelDirectory, readSafetensors } from '../helpers/fixtures';

jest.setTimeout(120_000);
const root = mkdtempSync(join(tmpdir(), 'acoer-adapter-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let folders = 0;

const tiny = (more: TrainOptions = {}) => ({
  model: 'tiny',
  device: 'cpu' as const,
  maxSteps: 3,
  promptsPerStep: 4,
  maxCompletionLength: 64,
  evalMaxNewTokens: 64,
  evalProblems: 20,
  evalSampledProblems: 0,
  completionsSteps: 0,
  tensorboard: false,
  saveSteps: 1,
  out: join(root, `run-${folders++}`),
  ...more,
});

const finish = async (given: TrainOptions) => (await train(given)).result();
const final = ({ out }: { out: string }) => join(out, 'final');
const configOf = (out: string) => JSON.parse(readFileSync(join(out, 'config.json'), 'utf8')) as Config;

const first = tiny({ loraRank: 4, loraAlpha: 12, targetModules: ['q_proj', 'down_proj'] });
let trained: Awaited<ReturnType<typeof finish>>['trained'];
beforeAll(async () => {
  ({ trained } = await finish(first));
});

test('goes on with its weights and shape, and compares with where it started', async () => {
  const second = tiny({ adapter: final(first), beta: 0.1 });
  const { base } = await finish(second);
  expect(base.greedy!.solved).toBe(trained.greedy!.solved);
  expect(base.greedy!.totalTokens).toBe(trained.greedy!.totalTokens);
  const { loraRank, loraAlpha, targetModules } = configOf(second.out);
  expect({ loraRank, loraAlpha, targetModules }).toEqual({
    loraRank: 4,
    loraAlpha: 12,
    targetModules: ['q_proj', 'down_proj'],
  });
  // The KL term is against the adapter it started from, from which it has not moved in the first step.
  const [one, , three] = metricsOf(second.out);
  expect(Math.abs(one!.kl!)).toBeLessThan(1e-9);
  expect(three!.kl!).toBeGreaterThan(1e-9);
});

test('a run that is interrupted resumes to the same numbers, with the same adapter only', async () => {
  const start = join(root, 'start');
  cpSync(final(first), start, { recursive: true });
  const whole = tiny({ adapter: start, beta: 0.1 });
  await finish(whole);
  const broken = tiny({ adapter: start, beta: 0.1 });
  for await (const { index } of await train(broken)) if (index === 2) break;
  await expect(train({ resume: broken.out, adapter: null })).rejects.toThrow(/cannot change adapter/);
  const moved = join(root, 'moved');
  cpSync(start, moved, { recursive: true });
  appendFileSync(join(start, 'adapter_config.json'), ' ');
  await expect(train({ resume: broken.out })).rejects.toThrow(
    /adapter_config\.json in .*start has changed since the checkpoint of step 2/,
  );
  await finish({ resume: broken.out, adapter: moved });
  expect(metricsOf(broken.out)).toEqual(metricsOf(whole.out));
  await expect(train({ fork: { run: whole.out, at: 1 }, adapter: moved })).rejects.toThrow(
    'A fork continues with the weights of its checkpoint, so adapter cannot change.',
  );
});

test.each([
  ['all-r2', 'untied-kv1'],
  ['mixed-r4', 'untied-kv8-sharded'],
])("PEFT's adapter %s: a run without a learning rate leaves its tensors as they are", async (name, model) => {
  const given = tiny({
    model: modelDirectory(model),
    preset: 'tiny',
    adapter: adapterDirectory(name),
    tokenizer: fakeTokenizer,
    trainData: fakeDataset(30),
    reward: 'acc',
    dtype: 'float32',
    learningRate: 0,
    maxSteps: 1,
    evalProblems: 0,
    maxCompletionLength: 8,
  });
  await finish(given);
  const tensors = (folder: string) => readSafetensors(join(folder, 'adapter_model.safetensors'));
  expect(tensors(final(given))).toEqual(tensors(adapterDirectory(name)));
});

test.each<[TrainOptions, RegExp]>([
  [{ adapter: join(root, 'nowhere') }, /nowhere\/adapter_config\.json/],
  [{ adapter: adapterDirectory('all-r2') }, /adapter_model\.safetensors|shape/],
])('an adapter that cannot be used is refused: %j', async (more, message) => {
  await expect(train(tiny(more))).rejects.toThrow(message);
});
