/** The sums of gradients that a policy lends: the engine's own memory, which the step takes. */
import { packSequences, runsByTokens } from '../../src/base/packing';
import { createEngine } from '../../src/engine/engine';
import type { Engine, Model, PackedSequences, Policy, PolicyOptions } from '../../src/engine/types';
import { failureOf } from '../helpers/engine-calls';
import { randomModel } from '../helpers/random-model';

const LORA: PolicyOptions = { kind: 'lora', rank: 4, alpha: 8, seed: 1n };
const directory = randomModel({ vocabSize: 64, hiddenSize: 32, intermediateSize: 64, numLayers: 2 });

let engine: Engine;
let model: Model;
beforeAll(async () => {
  engine = await createEngine({ device: 'cpu', threads: 1 });
  model = await engine.loadModel(directory);
});
afterAll(() => engine.dispose());

/** Eight completions of four prompts. */
const all = Array.from({ length: 8 }, (_, b) => ({
  promptIds: Int32Array.of(1 + (b >> 1), 2, 3),
  completionIds: Int32Array.from({ length: 5 + b }, (_, t) => (b * 7 + t * 5) % 60),
}));

async function differentiate(policy: Policy, some: typeof all): Promise<void> {
  const { logprobs } = await policy.forward(packSequences(some, runsByTokens(some)));
  await policy.backward(logprobs.map((_, t) => Math.sin(t + 1) / 10));
}

const numbers = async (policy: Policy) =>
  Object.values(await policy.gradients()).flatMap(({ data }) => [...data]);

test.each([LORA, { kind: 'full' } as const])('$kind: float64, in the order of the parameters', async (of) => {
  await using policy = await model.createPolicy(of);
  await differentiate(policy, all);
  const expected = await numbers(policy);
  const sums = await policy.gradientSums();
  expect(sums).toHaveLength(policy.info.parameterCount);
  expect(sums.BYTES_PER_ELEMENT).toBe(8);
  expect(Array.from(sums, Math.fround)).toEqual(expected);
  expect(expected.some((x) => x !== 0)).toBe(true);
});

test('a policy always lends the same memory, and steps on what was written there', async () => {
  await using made = await policies();
  const [alone, first, second] = made;
  for (let step = 0; step < 3; step++) {
    await differentiate(alone!, all.slice(0, 4));
    await differentiate(alone!, all.slice(4));
    await differentiate(first!, all.slice(0, 4));
    await differentiate(second!, all.slice(4));
    const [ours, theirs] = await Promise.all([first!.gradientSums(), second!.gradientSums()]);
    expect(await first!.gradientSums()).toBe(ours);
    ours.forEach((value, i) => (ours[i] = theirs[i] = value + theirs[i]!));
    const steps = [];
    for (const policy of [alone!, first!, second!]) {
      steps.push(await policy.step({ learningRate: 1e-2, maxGradNorm: 0.1 }));
    }
    expect(steps[1]).toEqual(steps[0]);
    expect(steps[2]).toEqual(steps[0]);
    expect(ours.every((value) => value === 0)).toBe(true);
  }
});

/** Three policies with the same weights; disposed together. */
async function policies(): Promise<Policy[] & AsyncDisposable> {
  const made: Policy[] = [];
  for (let i = 0; i < 3; i++) made.push(await model.createPolicy(LORA));
  return Object.assign(made, {
    [Symbol.asyncDispose]: async () => {
      for (const policy of made) await policy.dispose();
    },
  });
}

test('without a backward the sums are zeros; lent memory outlives its policy and its engine', async () => {
  const own = await createEngine({ device: 'cpu', threads: 1, memoryLimitBytes: 5e8 });
  const policy = await (await own.loadModel(directory)).createPolicy(LORA);
  const sums = await policy.gradientSums();
  expect(sums.every((value) => value === 0)).toBe(true);
  await differentiate(policy, all);
  expect(sums.some((value) => value !== 0)).toBe(true);
  const before = Array.from(sums);
  await own.dispose();
  expect(Array.from(sums)).toEqual(before);
  expect((await failureOf(() => policy.gradientSums())).code).toBe('DISPOSED');
});

test.each([[[0]], [[0, 7]], [[1, 8]], [[0, 4, 4, 8]], [[0, 6, 2, 8]]])(
  'runs %j are refused',
  async (runs) => {
    await using policy = await model.createPolicy(LORA);
    const bad: PackedSequences = { ...packSequences(all), runs: Int32Array.from(runs) };
    const { code, message } = await failureOf(() => policy.forward(bad));
    expect(code).toBe('BAD_SHAPE');
    expect(message).toMatch('runs must rise from 0 to the number of sequences, 8');
  },
);
