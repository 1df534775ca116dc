/** Running out of memory in the real engine: an error with a code, nothing half done, everything usable afterwards. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { resolveConfig, type Config } from '../../src/config';
import { apart } from '../../src/base/packing';
import { createEngine } from '../../src/engine/engine';
import type { Dtype, Engine, Model, Policy, PolicyOptions, TensorTable } from '../../src/engine/types';
import { generateFitting, SlotLimit } from '../../src/sampling';
import { MemoryLimits } from '../../src/grpo/memory';
import { lossPass } from '../../src/grpo/loss';
import { NO_WATCH } from '../../src/grpo/watch';
import { resolveLoss } from '../../src/losses';
import type { Sample } from '../../src/grpo/sample';
import { failureOf, request, sequences } from '../helpers/engine-calls';
import { runChild } from '../helpers/engine-child';
import { differingTensors } from '../helpers/fixtures';
import { randomModel } from '../helpers/random-model';
import { anyPass } from '../helpers/training';

const folder = mkdtempSync(join(tmpdir(), 'acoer-memory-'));
afterAll(() => rmSync(folder, { recursive: true }));

const MB = 1e6;
const directory = randomModel({ vocabSize: 512, hiddenSize: 64, intermediateSize: 128, numLayers: 2 });
const LORA: PolicyOptions = { kind: 'lora', rank: 4, alpha: 8, seed: 1n };

interface Opened {
  engine: Engine;
  model: Model;
  policy: Policy;
}

async function withLimit<T>(
  memoryLimitBytes: number,
  work: (opened: Opened) => Promise<T>,
  options: PolicyOptions = LORA,
  dtype: Dtype = 'float32',
): Promise<T> {
  await using engine = await createEngine({ device: 'cpu', threads: 2, memoryLimitBytes });
  const model = await engine.loadModel(directory, { dtype });
  return await work({ engine, model, policy: await model.createPolicy(options) });
}

const tensorBytes = async (engine: Engine) => (await engine.memory()).tensorBytes!;

describe('under a limit', () => {
  test('a pass: refused, and gradients, memory and later calls are as if it had not been made', async () => {
    const expected = await withLimit(0, async ({ policy }) => {
      await anyPass(policy, sequences(2, 6));
      await anyPass(policy, sequences(3, 9));
      return policy.gradients();
    });
    await withLimit(8 * MB, async ({ engine, policy }) => {
      await anyPass(policy, sequences(2, 6));
      const [gradients, bytes] = [await policy.gradients(), await tensorBytes(engine)];
      for (let attempt = 0; attempt < 5; attempt++) {
        const error = await failureOf(() => anyPass(policy, sequences(64, 60)));
        expect(error.code).toBe('OUT_OF_MEMORY');
        expect(error.message).toMatch(/^out of memory: .* memoryLimitBytes is 8\.0 MB$/);
        expect(await tensorBytes(engine)).toBe(bytes);
      }
      expect(await policy.gradients()).toEqual(gradients);
      await anyPass(policy, sequences(3, 9));
      expect(await policy.gradients()).toEqual(expected);
      expect((await engine.memory()).peakTensorBytes).toBeLessThanOrEqual(8 * MB);
    });
  });

  test('a single sequence whose activations do not fit: each layer is run again, to the same gradient', async () => {
    const gradientsUnder = (limit: number) =>
      withLimit(limit, async ({ engine, policy }) => {
        await anyPass(policy, sequences(1, 400));
        return { gradients: await policy.gradients(), peak: (await engine.memory()).peakTensorBytes };
      });
    const whole = await gradientsUnder(100 * MB);
    const limit = Math.floor(0.8 * whole.peak!);
    const cut = await gradientsUnder(limit);
    expect(cut.peak).toBeLessThanOrEqual(limit);
    expect(differingTensors(cut.gradients, whole.gradients, 1e-6)).toEqual([]);
  });

  test('score and generate: refused, and the next call works', async () => {
    const small = request({ numSamples: 2, maxNewTokens: 8 });
    const [scores, tokens] = await withLimit(0, async ({ model, policy }) => [
      await model.score(sequences(2, 6), { policy }),
      (await model.generate([small])).sequences,
    ]);
    await withLimit(5 * MB, async ({ engine, model, policy }) => {
      const bytes = await tensorBytes(engine);
      expect((await failureOf(() => model.score(sequences(64, 60), { policy }))).code).toBe('OUT_OF_MEMORY');
      expect(await model.score(sequences(2, 6), { policy })).toEqual(scores);
      const large = [request({ numSamples: 64, maxNewTokens: 200 })];
      const error = await failureOf(() => model.generate(large, { kvBytes: 1e9 }));
      expect(error.code).toBe('OUT_OF_MEMORY');
      expect((await model.generate([small])).sequences).toEqual(tokens);
      expect(await tensorBytes(engine)).toBe(bytes);
    });
  });

  test('a model that does not fit: the engine is there for one that does', async () => {
    await using engine = await createEngine({ device: 'cpu', threads: 1, memoryLimitBytes: 0.3 * MB });
    expect((await failureOf(() => engine.loadModel(directory))).code).toBe('OUT_OF_MEMORY');
    expect(await tensorBytes(engine)).toBe(0);
    const model = await engine.loadModel(randomModel());
    expect((await model.generate([request()])).sequences).toHaveLength(1);
  });

  test('the optimiser: refused before a parameter or a moment changed', async () => {
    const save = async (policy: Policy, name: string) => {
      await policy.save(join(folder, `${name}.weights`), 'float32');
      await policy.saveOptimizer(join(folder, `${name}.moments`));
      return Buffer.concat(
        ['weights', 'moments'].map((kind) => readFileSync(join(folder, `${name}.${kind}`))),
      );
    };
    // Without gradients a step needs a buffer of the largest parameter for zeros and one for the denominator.
    const held = await withLimit(100 * MB, ({ engine }) => tensorBytes(engine), { kind: 'full' });
    await withLimit(
      held + 0.1 * MB,
      async ({ engine, policy }) => {
        const before = await save(policy, 'before');
        expect((await failureOf(() => policy.step({ learningRate: 1 }))).code).toBe('OUT_OF_MEMORY');
        expect((await save(policy, 'after')).equals(before)).toBe(true);
        expect(await tensorBytes(engine)).toBe(held);
      },
      { kind: 'full' },
    );
  });

  test('the limit is one of the engine, and bad ones are refused', async () => {
    await withLimit(3 * MB, ({ policy: limited }) =>
      withLimit(0, async ({ policy }) => {
        await anyPass(policy, sequences(64, 60));
        expect((await failureOf(() => anyPass(limited, sequences(64, 60)))).code).toBe('OUT_OF_MEMORY');
      }),
    );
    const error = await failureOf(() => createEngine({ device: 'cpu', memoryLimitBytes: -1 }));
    expect(error.message).toBe('options.memoryLimitBytes must be at least 0, not -1');
  });
});

test('the system itself has no more memory: the same, and the process lives', async () => {
  // RLIMIT_AS a little above what the process has, once everything is loaded.
  const { stdout, stderr, code } = await runChild(
    `
    const { engine, model } = await load();
    const { policy } = await engine.createPolicy({ model, kind: 'lora', rank: 4, alpha: 8, rslora: false, dropout: 0,
      targets: ['q_proj'], matrices: [], seed: 1n, beta1: 0.9, beta2: 0.999, eps: 1e-8 });
    const score = (count, length) => engine.score({ model, policy, temperature: 1, job: 3,
      ids: new Int32Array(count * length), promptLengths: new Int32Array(count).fill(1),
      offsets: Int32Array.from({ length: count + 1 }, (_, i) => i * length) });
    await score(2, 8);
    const size = /VmSize:\\s+(\\d+)/.exec(require('node:fs').readFileSync('/proc/self/status', 'utf8'))[1] * 1024;
    require('node:child_process').execFileSync('prlimit', ['--pid', process.pid, '--as=' + (size + 200e6) + ':']);
    const failed = await score(4096, 200).catch((error) => error);
    await score(2, 8);
    await engine.dispose();
    console.log(JSON.stringify({ code: failed.code, message: failed.message }));
    `,
    { model: directory },
  );
  expect({ stderr, code }).toEqual({ stderr: '', code: 0 });
  const { code: failure, message } = JSON.parse(stdout) as { code: string; message: string };
  expect({ failure, message }).toEqual({
    failure: 'OUT_OF_MEMORY',
    message: expect.stringMatching(/^out of memory: /) as string,
  });
});

describe('cut smaller by the loop', () => {
  const config = (changes: Partial<Config>): Config => ({
    ...resolveConfig([{}]),
    beta: 0.05,
    numGenerations: 16,
    ...changes,
  });

  /** 16 sequences of 20 to 95 tokens. */
  function samples({ beta, vocabulary = 512 }: { beta: number; vocabulary?: number }): Sample[] {
    return Array.from({ length: 16 }, (_, b): Sample => {
      const ids = Int32Array.from({ length: 20 + 5 * b }, (_, t) => (b * 31 + t * 17 + 3) % vocabulary);
      const completionIds = ids.subarray(6);
      const logprobs = Float64Array.from(completionIds, (id) => -4 - (id % 7) / 4);
      return {
        promptIds: ids.subarray(0, 6),
        completionIds,
        promptIndex: 0,
        sample: b,
        sampledLogprobs: logprobs,
        entropies: logprobs,
        reward: 0,
        advantage: (b % 5) - 1.8,
        masked: b === 3,
        skipped: false,
        oldLogprobs: null,
        refLogprobs: beta === 0 ? null : logprobs,
      };
    });
  }

  async function update(limit: number, changes: Partial<Config>) {
    const settings = config(changes);
    const dropout = settings.loraDropout;
    return withLimit(
      limit,
      async ({ policy }) => {
        const all = samples(settings);
        const memory = new MemoryLimits(settings);
        const tokens = all.reduce((sum, s) => sum + (s.masked ? 0 : s.completionIds.length), 0);
        const context = { config: settings, policy, loss: resolveLoss(settings.lossType), watch: NO_WATCH };
        const normalizer = context.loss.normalizer({
          sequences: all.length,
          tokens,
          generationTokens: tokens,
          stepsPerGeneration: 1,
          maxCompletionLength: 100,
        });
        const pass = async (members: readonly Sample[]) => {
          await lossPass(context, members, { normalizer, dropoutSeed: dropout > 0 ? 9n : null, kept: null });
        };
        // With B = 0, as at first, A would have no gradient.
        await pass(all.slice(0, 1));
        await policy.step({ learningRate: 1e-2 });
        const passes = await memory.inBins('training', apart(all), pass, () => policy.zeroGradients());
        const gradients = await policy.gradients();
        const step = await policy.step({ learningRate: 1e-2, maxGradNorm: 1 });
        return { passes, gradients, step };
      },
      { ...LORA, dropout } as PolicyOptions,
      'float64',
    );
  }

  const LIMIT = 12 * MB;

  test.each([
    ...(['grpo', 'dapo', 'dr_grpo', 'bnpo', 'cispo', 'sapo', 'luspo', 'vespo'] as const).map((lossType) => ({
      lossType,
    })),
    { lossType: 'grpo' as const, loraDropout: 0.2 },
    { lossType: 'grpo' as const, importanceSamplingLevel: 'sequence' as const },
    // In float64 only a wrong cut can differ: float32's sums depend on the processor's matrix products, by up to 1.3e-6.
  ])('the gradient and the step are those of one pass, to 1e-12: %j', async (changes) => {
    const whole = await update(0, changes);
    const cut = await update(LIMIT, changes);
    expect(whole.passes).toBe(1);
    expect(cut.passes).toBeGreaterThan(1);
    expect(differingTensors(cut.gradients, whole.gradients, 1e-12)).toEqual([]);
    expect(Math.abs(cut.step.gradNorm / whole.step.gradNorm - 1)).toBeLessThan(1e-12);
    expect(cut.step.applied).toBe(true);
    expect(nonZero(whole.gradients)).toBeGreaterThan(0);
  });

  test('a single sequence that does not fit is told with what to lower', async () => {
    await withLimit(0.9 * MB, async ({ policy }) => {
      const settings = config({ memoryLimitBytes: 0.9 * MB });
      const memory = new MemoryLimits(settings);
      const context = { config: settings, policy, loss: resolveLoss('grpo'), watch: NO_WATCH };
      const error = await failureOf(() =>
        memory.inBins('training', apart(samples(settings)), async (members) => {
          await lossPass(context, members, { normalizer: 1, dropoutSeed: null, kept: null });
        }),
      );
      expect(error.code).toBe('OUT_OF_MEMORY');
      expect(error.message).toMatch(
        /training on one sequence of 95 tokens.*raise memoryLimitBytes.*maxCompletionLength/,
      );
    });
  });

  test('completions are those of a generation that found memory, each once', async () => {
    const requests = [
      request({ numSamples: 12, maxNewTokens: 150, stopIds: Int32Array.of(1, 2, 3, 4, 5, 6, 7, 8) }),
      request({ promptIds: Int32Array.of(9, 8, 7, 6), numSamples: 5, firstSample: 3, maxNewTokens: 150 }),
    ];
    const all = async (limit: number) =>
      withLimit(limit, async ({ engine, model, policy }) => {
        const found: { request: number; sample: number; ids: Int32Array; finish: string }[] = [];
        const lowered: number[] = [];
        const slots = new SlotLimit(undefined, (now) => lowered.push(now));
        const asked = requests.map((one) => ({ ...one, policy }));
        const before = (await engine.memory()).tensorBytes;
        const inFlight = new Map<string, number>();
        const stats = await generateFitting(model, asked, slots, {
          kvBytes: 1e9,
          onSequence: ({ request: of, sample, ids, finish }) =>
            void found.push({ request: of, sample, ids, finish }),
          progressEveryMs: 0,
          onProgress: (progress) => {
            for (const one of progress.inFlight) {
              expect(found.some((ended) => ended.request === one.prompt && ended.sample === one.sample)).toBe(
                false,
              );
              const name = `${one.prompt} ${one.sample}`;
              inFlight.set(name, Math.max(one.tokens, inFlight.get(name) ?? 0));
            }
          },
        });
        // Seen on their way, never with as many tokens as they have in the end.
        expect(inFlight.size).toBeGreaterThan(found.length / 4);
        for (const { request: of, sample, ids } of found) {
          expect(inFlight.get(`${of} ${sample}`) ?? 0).toBeLessThan(ids.length);
        }
        expect((await engine.memory()).tensorBytes).toBe(before);
        found.sort((a, b) => a.request - b.request || a.sample - b.sample);
        return { found, lowered, newTokens: stats.newTokens };
      });
    const plain = await all(0);
    const cut = await all(2 * MB);
    expect(plain.lowered).toEqual([]);
    expect(cut.lowered.length).toBeGreaterThan(0);
    expect(cut.found).toEqual(plain.found);
    expect(cut.newTokens).toBe(plain.newTokens);
  });
});

function nonZero(gradients: TensorTable): number {
  return Object.values(gradients).filter(({ data }) => data.some((value) => value !== 0)).length;
}
