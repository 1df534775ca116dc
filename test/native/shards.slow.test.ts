/**
 * Full policies of which each has a shard of AdamW's moments: together they make the steps of one policy to the bit, store
 * its file, and hold its moments once.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { resolveConfig } from '../../src/config';
import { packSequences } from '../../src/base/packing';
import { createEngine } from '../../src/engine/engine';
import type { Engine, Model, Moment, Policy } from '../../src/engine/types';
import { engineDevice, planRun, readPlannedModel } from '../../src/plan';
import { MOMENTS } from '../../src/ranks/shards';
import { failureOf } from '../helpers/engine-calls';
import { randomModel } from '../helpers/random-model';

const root = mkdtempSync(join(tmpdir(), 'acoer-shards-'));
let engine: Engine;
beforeAll(async () => {
  // With a limit the engine counts its tensors.
  engine = await createEngine({ device: 'cpu', threads: 2, memoryLimitBytes: 4e9 });
});
afterAll(async () => {
  await engine.dispose();
  rmSync(root, { recursive: true });
});

/** Odd sizes: no tensor is of whole vectors. */
const SMALL = randomModel({ vocabSize: 61, hiddenSize: 36, intermediateSize: 50, numLayers: 2 });
/** Above 64 MiB gradients are summed in float32. */
const LARGE = () => randomModel({ vocabSize: 130_003, hiddenSize: 132, intermediateSize: 150, numLayers: 1 });

const all = Array.from({ length: 4 }, (_, b) => ({
  promptIds: Int32Array.of(1 + b, 2, 3),
  completionIds: Int32Array.from({ length: 5 + b }, (_, t) => (b * 7 + t * 5) % 60),
}));

async function differentiate(policy: Policy, step: number): Promise<void> {
  const { logprobs } = await policy.forward(packSequences(all));
  await policy.backward(logprobs.map((_, t) => Math.sin(t + step + 1) / 10));
}

/** What ranks do: each one's part becomes that of all. */
async function gather(policies: readonly Policy[], what: 'weights' | Moment): Promise<void> {
  const lent: (Float64Array | Float32Array)[] = [];
  for (const policy of policies) lent.push(await policy.lendShard(what));
  const { shardOffsets } = policies[0]!.info;
  lent.forEach((own, index) => {
    const [begin, end] = [shardOffsets[index]!, shardOffsets[index + 1]!];
    for (const other of lent) other.set(own.subarray(begin, end), begin);
  });
}

async function stepOf(policies: readonly Policy[], step: number) {
  const made = [];
  for (const policy of policies) {
    await differentiate(policy, step);
    made.push(await policy.step({ learningRate: 1e-2, weightDecay: 0.1, maxGradNorm: 0.5 }));
  }
  if (policies.length > 1) {
    await gather(policies, 'weights');
    for (const policy of policies) await policy.takeWeights();
  }
  return made;
}

const bytesOf = async (policy: Policy, name: string) => {
  const path = join(root, name);
  await policy.save(path);
  return readFileSync(path);
};

async function storeMoments(policies: readonly Policy[], path: string): Promise<void> {
  for (const moment of MOMENTS) {
    await gather(policies, moment);
    await policies[0]!.saveMoment(path, moment);
    for (const policy of policies) await policy.zeroGradients();
  }
}

const shardsOf = async (model: Model, count: number): Promise<Policy[]> => {
  const policies = [];
  for (let index = 0; index < count; index++)
    policies.push(await model.createPolicy({ kind: 'full', shard: { index, count } }));
  return policies;
};

async function checkSteps(model: Model, counts: readonly number[], steps: number): Promise<void> {
  await using alone = await model.createPolicy({ kind: 'full' });
  const expected = [];
  for (let step = 0; step < steps; step++) {
    const [made] = await stepOf([alone], step);
    expected.push({ made, weights: await bytesOf(alone, 'alone') });
  }
  const optimizer = join(root, 'optimizer');
  await alone.saveOptimizer(optimizer);
  let stored: { weights: string; optimizer: string } | null = null;
  for (const [i, count] of counts.entries()) {
    const policies = await shardsOf(model, count);
    const first = i === 0 ? 0 : steps - 1;
    if (stored !== null) {
      // They go on where another number of shards had come to.
      for (const policy of policies) {
        await policy.restore(stored.weights);
        await policy.restoreOptimizer(stored.optimizer);
      }
    }
    for (let step = first; step < steps; step++) {
      const before = { weights: join(root, `weights-${i}`), optimizer: join(root, `optimizer-${i}`) };
      if (step === steps - 1) {
        await policies[0]!.save(before.weights);
        await storeMoments(policies, before.optimizer);
        stored = before;
      }
      for (const made of await stepOf(policies, step)) expect(made).toEqual(expected[step]!.made);
      for (const policy of policies)
        expect((await bytesOf(policy, 'one')).equals(expected[step]!.weights)).toBe(true);
    }
    await storeMoments(policies, join(root, 'together'));
    expect(readFileSync(join(root, 'together')).equals(readFileSync(optimizer))).toBe(true);
    for (const policy of policies) await policy.dispose();
  }
}

test('2, 3 and 7 shards make the steps and files of one policy, and go on from one another', async () => {
  await using model = await engine.loadModel(SMALL);
  await checkSteps(model, [2, 3, 7], 4);
});

test('so do they for float64, and for a large model, whose sums are float32', async () => {
  await using wide = await engine.loadModel(SMALL, { dtype: 'float64' });
  await checkSteps(wide, [3, 2], 2);
  await using large = await engine.loadModel(LARGE());
  await using policy = await large.createPolicy({ kind: 'full' });
  expect((await policy.gradientSums()).BYTES_PER_ELEMENT).toBe(4);
  await policy.dispose();
  await checkSteps(large, [2], 1);
}, 120_000);

test('a policy takes the memory of its shard, as the plan says', async () => {
  const directory = randomModel({ vocabSize: 2048, hiddenSize: 256, intermediateSize: 512 });
  await using model = await engine.loadModel(directory);
  const planned = await readPlannedModel(directory);
  const device = await engineDevice(engine);
  const config = resolveConfig([{ full: true, promptsPerStep: 1, numGenerations: 2 }], 'tiny');
  const measure = async () => {
    const { engineBytes, tensorBytes } = await engine.memory();
    return { engineBytes, tensorBytes: tensorBytes! };
  };
  const before = await measure();
  const trained = 4 * model.info.parameterCount;
  for (const ranks of [1, 2, 5]) {
    const { memory } = planRun({ config, model: planned, device, promptTokens: 32, ranks });
    const { bytes } = memory.items.find(({ name }) => name === 'trained weights, AdamW moments')!;
    expect(bytes / trained).toBeCloseTo(1 + 2 / ranks, 4);
    const shard = ranks > 1 ? { index: ranks - 1, count: ranks } : undefined;
    const policy = await model.createPolicy({ kind: 'full', shard });
    const after = await measure();
    expect((after.tensorBytes - before.tensorBytes) / bytes).toBeCloseTo(1, 3);
    const sums = 8 * model.info.parameterCount;
    expect((after.engineBytes - before.engineBytes - sums) / bytes).toBeCloseTo(1, 3);
    await policy.dispose();
  }
});

test('what is no shard is refused, and a shard alone is not stored', async () => {
  await using model = await engine.loadModel(SMALL);
  for (const shard of [
    { index: 2, count: 2 },
    { index: -1, count: 2 },
    { index: 0, count: 0 },
  ]) {
    const { code, message } = await failureOf(() => model.createPolicy({ kind: 'full', shard }));
    expect([code, message]).toEqual(['BAD_ARGUMENT', expect.stringContaining('one of 0 to count - 1')]);
  }
  const lora = { kind: 'lora', rank: 2, alpha: 4, seed: 1n, shard: { index: 0, count: 2 } } as const;
  expect((await failureOf(() => model.createPolicy(lora))).message).toMatch(/shard/);
  await using policy = await model.createPolicy({ kind: 'full', shard: { index: 1, count: 2 } });
  for (const call of [
    () => policy.saveOptimizer(join(root, 'refused')),
    () => policy.takeWeights(),
    () => policy.saveMoment(join(root, 'refused'), 'exp_avg'),
  ])
    expect((await failureOf(call)).code).toBe('BAD_ARGUMENT');
});
