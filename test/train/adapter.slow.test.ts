/** Training that goes on from an adapter, ours or PEFT's. */
import { appendFileSync, cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Config } from '../../src/config';
import { createEngine } from '../../src/engine/engine';
import { train } from '../../src/train';
import { metricsOf } from '../helpers/fake-run';
import { fakeDataset, fakeTokenizer } from '../helpers/fake-tokenizer';
import { adapterDirectory, modelDirectory, readSafetensors } from '../helpers/fixtures';
import { asCall, type Given } from '../helpers/given';

const root = mkdtempSync(join(tmpdir(), 'acoer-adapter-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let folders = 0;

const tiny = (more: Given = {}) => ({
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

const finish = async (given: Given) => (await train(...asCall(given))).result();
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
  for await (const { index } of await train(...asCall(broken))) if (index === 2) break;
  await expect(train({ adapter: null }, { resume: broken.out })).rejects.toThrow(/cannot change adapter/);
  const moved = join(root, 'moved');
  cpSync(start, moved, { recursive: true });
  appendFileSync(join(start, 'adapter_config.json'), ' ');
  await expect(train({}, { resume: broken.out })).rejects.toThrow(
    /adapter_config\.json in .*start has changed since the checkpoint of step 2/,
  );
  await finish({ resume: broken.out, adapter: moved });
  expect(metricsOf(broken.out)).toEqual(metricsOf(whole.out));
  await expect(train({ adapter: moved }, { fork: { run: whole.out, at: 1 } })).rejects.toThrow(
    'A fork continues with the weights of its checkpoint, so adapter cannot change.',
  );
});

/** Log-probs of one sequence under each adapter; null: the base model. */
async function logprobsOf(base: string, adapters: readonly (string | null)[]): Promise<Float64Array[]> {
  await using engine = await createEngine({ device: 'cpu' });
  const model = await engine.loadModel(base, { dtype: 'float32' });
  const sequence = {
    ids: Int32Array.of(3, 1, 4, 1, 5, 9),
    offsets: Int32Array.of(0, 6),
    promptLengths: Int32Array.of(1),
  };
  const all: Float64Array[] = [];
  for (const folder of adapters) {
    const policy = folder === null ? null : await model.loadAdapter(folder);
    all.push((await model.score(sequence, { policy })).logprobs);
  }
  return all;
}

/** A run that goes on from a stored adapter of PEFT and changes nothing. */
const fromPeft = (name: string, model: string) =>
  tiny({
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

test.each([
  ['all-r2', 'untied-kv1'],
  ['mixed-r4', 'untied-kv8-sharded'],
  ['peft-all-linear', 'tied-kv2'],
  ['peft-regex', 'tied-kv2'],
  ['peft-layers', 'tied-kv2'],
  ['peft-names', 'untied-kv1'],
  ['peft-ranks', 'untied-kv1'],
  ['peft-rslora-patterns', 'qwen2-tied'],
  ['peft-last-layer', 'untied-kv8-sharded'],
])("PEFT's adapter %s: a run without a learning rate leaves its tensors as they are", async (name, model) => {
  const given = fromPeft(name, model);
  await finish(given);
  const tensors = (folder: string) => readSafetensors(join(folder, 'adapter_model.safetensors'));
  expect(tensors(final(given))).toEqual(tensors(adapterDirectory(name)));
  // What is written is the same function, and not the base model's.
  const [start, end, base] = await logprobsOf(given.model, [adapterDirectory(name), final(given), null]);
  expect(end).toEqual(start);
  expect(end).not.toEqual(base);
});

test('an adapter of several ranks in some layers: trained, resumed and forked to the same numbers', async () => {
  const given = () => ({
    ...fromPeft('peft-layers', 'tied-kv2'),
    out: join(root, `run-${folders++}`),
    learningRate: 1e-3,
    maxSteps: 3,
    beta: 0.1,
    loraDropout: 0.1,
  });
  const whole = given();
  await finish(whole);
  const broken = given();
  for await (const { index } of await train(...asCall(broken))) if (index === 2) break;
  await finish({ resume: broken.out, trainData: fakeDataset(30), tokenizer: fakeTokenizer });
  expect(metricsOf(broken.out)).toEqual(metricsOf(whole.out));
  const fork = { run: whole.out, at: 2 };
  const forked = join(root, `run-${folders++}`);
  await finish({ fork, out: forked, trainData: fakeDataset(30), tokenizer: fakeTokenizer });
  const config = (out: string, at: string) =>
    JSON.parse(readFileSync(join(out, at, 'adapter_config.json'), 'utf8')) as Record<string, unknown>;
  for (const out of [whole.out, broken.out, forked]) {
    expect(config(out, 'final')).toMatchObject({
      target_modules: [0, 2].flatMap((layer) =>
        ['self_attn.q_proj', 'self_attn.v_proj', 'mlp.up_proj'].map(
          (name) => `model.layers.${layer}.${name}`,
        ),
      ),
      rank_pattern: { 'model.layers.0.self_attn.v_proj': 1, 'model.layers.2.self_attn.v_proj': 1 },
      r: 4,
    });
    const weights = (at: string) => readSafetensors(join(out, at, 'adapter_model.safetensors'));
    expect(weights('final')).toEqual(readSafetensors(join(whole.out, 'final', 'adapter_model.safetensors')));
    expect(weights('final')).not.toEqual(
      readSafetensors(join(adapterDirectory('peft-layers'), 'adapter_model.safetensors')),
    );
  }
});

test("an adapter of PEFT's rsLoRA goes on with its scale", async () => {
  const given = fromPeft('rslora', 'qwen2-tied');
  await finish(given);
  const { useRslora, loraRank, loraAlpha } = configOf(given.out);
  const start = adapterDirectory('rslora');
  const peft = JSON.parse(readFileSync(join(start, 'adapter_config.json'), 'utf8')) as Record<
    string,
    unknown
  >;
  expect({ useRslora, loraRank, loraAlpha }).toEqual({
    useRslora: true,
    loraRank: peft.r,
    loraAlpha: peft.lora_alpha,
  });
  const made = join(given.out, 'final', 'adapter_config.json');
  expect(JSON.parse(readFileSync(made, 'utf8'))).toMatchObject({ use_rslora: true, r: peft.r });
  // Both adapters are the same function, also as they are loaded again.
  const [before, after, base] = await logprobsOf(given.model, [start, final(given), null]);
  expect(after).toEqual(before);
  expect(before).not.toEqual(base);
});

test.each<[Given, RegExp]>([
  [{ adapter: join(root, 'nowhere') }, /nowhere\/adapter_config\.json/],
  [{ adapter: adapterDirectory('all-r2') }, /adapter_model\.safetensors|shape/],
])('an adapter that cannot be used is refused: %j', async (more, message) => {
  await expect(train(...asCall(tiny(more)))).rejects.toThrow(message);
});
