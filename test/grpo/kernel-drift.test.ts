/** A step whose sampler and trainer drift apart tells whose CUDA kernels are wrong, and goes on without them. */
import { rmSync } from 'node:fs';
import type { ConfigInput } from '../../src/config';
import type { GenerateCallOptions, KernelFamily, Model, Policy, TokenValues } from '../../src/engine/types';
import type { LoopContext } from '../../src/grpo/context';
import { trainSteps } from '../../src/grpo/loop';
import type { LoopStep } from '../../src/grpo/step';
import type { ProcessGroup } from '../../src/ranks';
import { FakeEngine, type FakePolicy } from '../helpers/fake-engine';
import { removeFakeRuns } from '../helpers/fake-run';
import { openFake } from '../helpers/opened-fake';
import { groupsInProcess } from '../helpers/ranks-in-process';

afterAll(removeFakeRuns);

const GAP = 'sampling/sampling_logp_difference/mean';

/** A card: what the kernels of each family add to every log-prob, and which are in use. */
interface Card {
  errors: Partial<Record<KernelFamily, number>>;
  used: Set<KernelFamily>;
  /** What the sampler adds by whatever operations. */
  always?: number;
}
const card = (errors: Card['errors'], used: KernelFamily[] = ['decode', 'training']): Card => ({
  errors,
  used: new Set(used),
});

/** The fake's numbers as the kernels of the card would make them. */
function onCard({ model, policy }: LoopContext, { errors, used, always = 0 }: Card): void {
  const shifted = <Values extends Pick<TokenValues, 'logprobs'>>(family: KernelFamily, values: Values) => ({
    ...values,
    logprobs: values.logprobs.map(
      (value) => value + (used.has(family) ? (errors[family] ?? 0) : 0) + (family === 'decode' ? always : 0),
    ),
  });
  const [forward, score, generate] = [
    policy.forward.bind(policy),
    model.score.bind(model),
    model.generate.bind(model),
  ];
  const own: Pick<Policy, 'forward'> = {
    forward: async (...given) => shifted('training', await forward(...given)),
  };
  Object.assign(policy, own);
  const ofModel: Partial<Model> = {
    score: async (...given) => shifted('training', await score(...given)),
    generate: (requests, options: GenerateCallOptions = {}) =>
      generate(requests, {
        ...options,
        onSequence: (sequence) => options.onSequence?.(shifted('decode', sequence)),
      }),
    leaveOutKernels: (family, why) => {
      const was = used.has(family);
      if (why === '') used.add(family);
      else used.delete(family);
      return Promise.resolve(was);
    },
  };
  Object.assign(model, ofModel);
}

async function run(on: Card | null, more: ConfigInput = {}, processes?: ProcessGroup) {
  const settings = { maxSteps: 3, promptsPerStep: 3, numGenerations: 4, ...more };
  const said: string[] = [];
  const options = { engine: new FakeEngine(), processes, warn: (text: string) => void said.push(text) };
  const { out, loop, start } = await openFake(settings, options);
  if (on !== null) onCard(loop, on);
  const steps: LoopStep[] = [];
  for await (const step of trainSteps(loop, await start(loop))) steps.push(step);
  rmSync(out, { recursive: true });
  const gaps = steps.map(({ metrics }) => metrics[GAP]!);
  return { gaps, said, steps, theta: (loop.policy as FakePolicy).theta };
}

const sentence = (gap: string, whose: string) =>
  `sampler and trainer are ${gap} nats a token apart, more than the 0.001 that rounding explains. Scored again with libtorch's operations: acoer's CUDA kernels of ${whose} differ from them and are left out from now on, which is slower; please report it.`;

test('right kernels stay', async () => {
  const kernels = card({ decode: 2e-4, training: -2e-4 });
  const { said, gaps } = await run(kernels);
  expect([...kernels.used]).toEqual(['decode', 'training']);
  expect(said).toEqual([]);
  for (const gap of gaps) expect(gap).toBeCloseTo(4e-4, 10);
});

test('wrong kernels of decoding are left out after their first step, and said once', async () => {
  const kernels = card({ decode: 0.3 });
  const { said, gaps } = await run(kernels);
  expect([...kernels.used]).toEqual(['training']);
  expect(said).toEqual([sentence('0.300', 'decoding')]);
  expect(gaps.map((gap) => Number(gap.toFixed(6)))).toEqual([0.3, 0, 0]);
});

test.each([
  ['on-policy', {}],
  ['several updates per batch, with a KL term', { numIterations: 2, beta: 0.04, maxSteps: 4 }],
  ['several slices per batch', { stepsPerGeneration: 2, maxSteps: 4 }],
  ['the tokens of highest entropy', { topEntropyQuantile: 0.4 }],
])('a step trained with wrong kernels is made again: %s', async (_, more) => {
  const kernels = card({ training: -0.2 });
  const wrong = await run(kernels, more);
  const right = await run(null, more);
  expect([...kernels.used]).toEqual(['decode']);
  expect(wrong.said).toEqual([sentence('0.200', 'scoring and training')]);
  expect(wrong.gaps).toEqual(right.gaps);
  expect(wrong.theta).toEqual(right.theta);
  const losses = ({ steps }: typeof right) =>
    steps.map(({ metrics }) => [metrics['loss'], metrics['entropy']]);
  expect(losses(wrong)).toEqual(losses(right));
});

test('both are left out where both are wrong', async () => {
  const kernels = card({ decode: 0.3, training: -0.3 });
  const { said, gaps } = await run(kernels);
  expect([...kernels.used]).toEqual([]);
  expect(said).toEqual([sentence('0.600', 'decoding and of scoring and training')]);
  expect(gaps[2]).toBe(0);
});

test('what a comparison had left out before stays out', async () => {
  const kernels = card({ training: 0.3 }, ['training']);
  const { said } = await run(kernels);
  expect([...kernels.used]).toEqual([]);
  expect(said).toEqual([sentence('0.300', 'scoring and training')]);
});

test('a drift without kernels is left to the metrics', async () => {
  const { said, gaps } = await run({ ...card({}, []), always: 0.3 });
  expect(said).toEqual([]);
  expect(gaps.map((gap) => Number(gap.toFixed(6)))).toEqual([0.3, 0.3, 0.3]);
});

test('dropout says nothing of the trainer, whose log-probs have it in them', async () => {
  const { said } = await run(card({ training: 0.3 }), { loraDropout: 0.1 });
  expect(said).toEqual([]);
});

test('two ranks leave out the same kernels, also where one card is right', async () => {
  const cards = [card({ training: 0.4 }), card({})];
  const two = await Promise.all(groupsInProcess(2).map((group) => run(cards[group.rank]!, {}, group)));
  const right = await run(null);
  for (const { used } of cards) expect([...used]).toEqual(['decode']);
  for (const { theta, said } of two) {
    expect(said).toHaveLength(1);
    theta.forEach((value, i) => expect(value).toBeCloseTo(right.theta[i]!, 10));
  }
});
