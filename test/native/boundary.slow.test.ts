/** The two sides of the native boundary agree, and a call behaves as src/engine/types.ts says. */
import { availableParallelism } from 'node:os';

import { loadAddon, type NativeEngine } from '../../src/engine/binding';
import { createEngine } from '../../src/engine/engine';
import { type Engine, type GeneratedSequence, type Model, TARGET_MODULES } from '../../src/engine/types';
import { endless, failureOf, longestPauseMs, request, sequences, timed } from '../helpers/engine-calls';
import { anyPass } from '../helpers/training';
import { randomModel } from '../helpers/random-model';

/** The methods of `NativeEngine`. */
const NATIVE_ENGINE_METHODS = [
  'deviceInfo',
  'loadModel',
  'createPolicy',
  'loadAdapter',
  'generate',
  'openDecoder',
  'addRequests',
  'cancelRequest',
  'checkKernels',
  'closeDecoder',
  'score',
  'exportWeights',
  'forward',
  'backward',
  'step',
  'zeroGradients',
  'gradients',
  'gradientSums',
  'kernelFacts',
  'leaveOutKernels',
  'lendShard',
  'takeWeights',
  'savePolicy',
  'saveOptimizer',
  'saveMoment',
  'restorePolicy',
  'restoreOptimizer',
  'disposePolicy',
  'disposeModel',
  'memory',
  'measureCeilings',
  'cancel',
  'dispose',
] as const satisfies readonly (keyof NativeEngine)[];

let engine: Engine;
let model: Model;
const directory = randomModel();

beforeAll(async () => {
  engine = await createEngine({ device: 'cpu', threads: 1 });
  model = await engine.loadModel(directory);
});
afterAll(() => engine.dispose());

test('the addon has the declared methods and no others', () => {
  const { prototype } = loadAddon().Engine as { prototype: object };
  const found = Object.getOwnPropertyNames(prototype).filter((name) => name !== 'constructor');
  expect(found.sort()).toEqual([...NATIVE_ENGINE_METHODS].sort());
});

test('the build says what it was made with', () => {
  const { libtorch, cuda, cxxFlags } = loadAddon().buildInfo();
  expect(libtorch).toMatch(/^2\.\d+\.\d+/);
  expect(cuda === null || /^\d+\.\d+$/.test(cuda)).toBe(true);
  expect(cxxFlags).toContain('-O');
});

test('an engine knows its device and a model its shape', async () => {
  expect(engine.deviceInfo).toMatchObject({ device: 'cpu', threads: 1 });
  expect(engine.deviceInfo.totalBytes).toBeGreaterThan(engine.deviceInfo.freeBytes);
  expect(model.info).toMatchObject({
    dtype: 'float32',
    device: 'cpu',
    vocabSize: 64,
    hiddenSize: 32,
    intermediateSize: 48,
    numLayers: 2,
    numHeads: 4,
    numKvHeads: 2,
    headDim: 16,
    tieWordEmbeddings: true,
  });
  const { engineBytes, residentBytes, peakResidentBytes } = await engine.memory();
  expect(engineBytes).toBe(model.info.bytes);
  expect(peakResidentBytes).toBeGreaterThanOrEqual(residentBytes);
});

test('threads 0 is every core this process may use', async () => {
  await using all = await createEngine({ device: 'cpu' });
  expect(all.deviceInfo.threads).toBeGreaterThanOrEqual(1);
  expect(all.deviceInfo.threads).toBeLessThanOrEqual(availableParallelism());
});

test('generate streams each sequence as it ends and returns them in order', async () => {
  const streamed: GeneratedSequence[] = [];
  const requests = [request({ numSamples: 3 }), request({ promptIds: Int32Array.of(9), maxNewTokens: 3 })];
  const { sequences, stats } = await model.generate(requests, { onSequence: (s) => streamed.push(s) });
  expect(sequences.map((s) => [s.request, s.sample])).toEqual([
    [0, 0],
    [0, 1],
    [0, 2],
    [1, 0],
  ]);
  expect([...streamed].sort((a, b) => a.request - b.request || a.sample - b.sample)).toEqual(sequences);
  expect(streamed[0]!.request).toBe(1);
  for (const sequence of sequences) {
    expect(sequence.finish).toBe('length');
    expect(sequence.ids.length).toBe(sequence.request === 0 ? 8 : 3);
    expect(sequence.logprobs.length).toBe(sequence.ids.length);
    expect(sequence.entropies.length).toBe(sequence.ids.length);
  }
  expect(stats).toMatchObject({ promptTokens: 4, newTokens: 27 });
});

test('score, forward, backward and step cross the boundary and back', async () => {
  await using policy = await model.createPolicy({ kind: 'lora', rank: 2, alpha: 4, seed: 3n });
  expect(policy.info).toMatchObject({
    kind: 'lora',
    rank: 2,
    alpha: 4,
    targets: [...TARGET_MODULES],
  });
  const packed = sequences(3, 7);
  const { logprobs, entropies } = await model.score(packed, { policy });
  expect(logprobs.length).toBe(15);
  expect(entropies.length).toBe(15);
  const result = await anyPass(policy, packed);
  expect(result.entropies.length).toBe(15);
  for (let t = 0; t < logprobs.length; t++) expect(result.logprobs[t]).toBeCloseTo(logprobs[t]!, 5);
  const gradients = await policy.gradients();
  expect(Object.keys(gradients).length).toBe(2 * 7 * 2);
  const { applied, gradNorm } = await policy.step({ learningRate: 1e-3 });
  expect(applied).toBe(true);
  expect(gradNorm).toBeGreaterThan(0);
  const memory = await engine.memory();
  // Master, two moments and a sum in float64.
  expect(memory.engineBytes).toBe(model.info.bytes + (3 * 4 + 8) * policy.info.parameterCount);
});

test('arguments are copied: changing them after the call changes nothing', async () => {
  const packed = sequences();
  const expected = await model.score(packed);
  const running = model.score(packed);
  packed.ids.fill(0);
  expect(await running).toEqual(expected);
});

test('calls queue in order; queue false refuses a busy engine', async () => {
  const ended: number[] = [];
  const calls = [0, 1, 2, 3].map((i) => model.score(sequences(i + 1)).then(() => ended.push(i)));
  expect(await failureOf(() => model.score(sequences(), { queue: false }))).toMatchObject({
    code: 'ENGINE_BUSY',
  });
  await Promise.all(calls);
  expect(ended).toEqual([0, 1, 2, 3]);
  await model.score(sequences(), { queue: false });
});

test('an abort ends a running generate between two tokens, after what it had was streamed', async () => {
  const abort = new AbortController();
  const streamed: GeneratedSequence[] = [];
  const reason = new Error('enough');
  setTimeout(() => abort.abort(reason), 100);
  const call = endless(model, { signal: abort.signal, onSequence: (sequence) => streamed.push(sequence) });
  const failure = await failureOf(() => call);
  expect(failure).toMatchObject({ code: 'CANCELLED', cause: reason });
  expect(streamed.map((sequence) => sequence.finish)).toEqual(Array(4).fill('cancelled'));
  expect(streamed[0]!.ids.length).toBeGreaterThan(0);
  expect(streamed[0]!.ids.length).toBeLessThan(3000);
});

test('an abort ends a waiting call, and one before the call never starts it', async () => {
  const first = new AbortController();
  const second = new AbortController();
  const running = failureOf(() => endless(model, { signal: first.signal }));
  const waiting = failureOf(() => model.score(sequences(), { signal: second.signal }));
  const behind = model.score(sequences());
  second.abort();
  first.abort();
  expect(await waiting).toMatchObject({ code: 'CANCELLED' });
  expect(await running).toMatchObject({ code: 'CANCELLED' });
  expect((await behind).logprobs.length).toBe(8);
  expect(await failureOf(() => model.score(sequences(), { signal: AbortSignal.abort() }))).toMatchObject({
    code: 'CANCELLED',
  });
});

test('an error thrown by onSequence ends the call and comes back as it is, also one that is not an Error', async () => {
  for (const thrown of [new TypeError('from the callback'), 'a string']) {
    let calls = 0;
    const failure = await failureOf(() =>
      model.generate([request({ maxNewTokens: 1 }), request({ maxNewTokens: 3000 })], {
        onSequence: () => {
          calls++;
          // eslint-disable-next-line @typescript-eslint/only-throw-error -- users may throw anything
          throw thrown;
        },
      }),
    );
    expect(failure).toBe(thrown);
    expect(calls).toBe(1);
  }
});

describe('progress', () => {
  const long = () => request({ maxNewTokens: 400, numSamples: 3 });

  test('names every sequence in flight with its tokens, and agrees with what has been streamed', async () => {
    const streamed = new Set<number>();
    const tokens = [0, 0, 0];
    let reports = 0;
    const { sequences, stats } = await model.generate([long()], {
      progressEveryMs: 0,
      onSequence: ({ sample }) => streamed.add(sample),
      onProgress: ({ ended, total, promptTokens, inFlight }) => {
        reports++;
        expect({ ended, total }).toEqual({ ended: streamed.size, total: 3 });
        expect(promptTokens).toBeLessThanOrEqual(3);
        for (let i = 0; i < inFlight.length; i += 3) {
          const [of, sample, now] = inFlight.subarray(i, i + 3);
          expect(of).toBe(0);
          expect(streamed.has(sample!)).toBe(false);
          expect(now).toBeGreaterThan(tokens[sample!]!);
          tokens[sample!] = now!;
        }
      },
    });
    expect(reports).toBeGreaterThan(1);
    expect(reports).toBeLessThanOrEqual(stats.decodeSteps + 2);
    // Listening changes no draw.
    expect(sequences).toEqual((await model.generate([long()])).sequences);
  });

  test('waits while JavaScript is busy: never more than one report is on its way', async () => {
    let reports = 0;
    let busyMs = 0;
    const { elapsedMs } = await timed(() =>
      model.generate([request({ maxNewTokens: 1500, numSamples: 4 })], {
        progressEveryMs: 0,
        onProgress: () => {
          reports++;
          const until = performance.now() + 20;
          while (performance.now() < until);
          busyMs += 20;
        },
      }),
    );
    expect(reports).toBeGreaterThan(0);
    // All but the last are taken while tokens are still being decoded.
    expect(busyMs).toBeLessThan(elapsedMs + 20);
    expect(reports).toBeLessThan(1500);
  });

  test('an error thrown by onProgress ends the call and comes back as it is', async () => {
    const thrown = new TypeError('from the callback');
    let calls = 0;
    const finishes: string[] = [];
    const failure = await failureOf(() =>
      endless(model, {
        progressEveryMs: 0,
        onSequence: ({ finish }) => finishes.push(finish),
        onProgress: () => {
          calls++;
          throw thrown;
        },
      }),
    );
    expect(failure).toBe(thrown);
    expect(calls).toBe(1);
    // As after an error of onSequence, nothing more is passed on.
    expect(finishes).toEqual([]);
    expect((await model.score(sequences())).logprobs.length).toBe(8);
  });
});

test('errors carry the code, the native cause and the stack of the call', async () => {
  const failure = await failureOf(async () => {
    await engine.loadModel('/nowhere');
  });
  expect(failure).toMatchObject({ name: 'AcoerError', code: 'BAD_FILE', cause: { code: 'BAD_FILE' } });
  expect(failure.message).toMatch(/^cannot read \/nowhere\/config.json: no such file/);
  expect(failure.message).not.toContain('\n');
  expect(failure.stack).toContain('boundary.slow.test.ts');
});

test('two engines work at once', async () => {
  await using other = await createEngine({ device: 'cpu', threads: 1 });
  const there = await other.loadModel(directory);
  const requests = [request({ maxNewTokens: 64, numSamples: 4 })];
  const [a, b] = await Promise.all([model.generate(requests), there.generate(requests)]);
  expect(a.sequences).toEqual(b.sequences);
});

describe('the event loop', () => {
  // About 40 MB: a decode step or a training pass takes long enough for a blocked loop to show.
  const slow = { vocabSize: 4096, hiddenSize: 256, intermediateSize: 1024, numLayers: 8, headDim: 64 };
  let large: Model;
  beforeAll(async () => {
    large = await engine.loadModel(randomModel(slow));
  });

  // Other processes can take the core for a while, which is no fault of this one: the best of three counts.
  async function bestPauseMs(work: () => Promise<unknown>): Promise<number> {
    const pauses: number[] = [];
    while (pauses.length < 3 && !(Math.min(...pauses) < 50)) {
      const { value, elapsedMs } = await timed(() => longestPauseMs(work));
      expect(elapsedMs).toBeGreaterThan(300);
      pauses.push(value);
    }
    return Math.min(...pauses);
  }

  test('never stands still for 50 ms while generating', async () => {
    const requests = [request({ maxNewTokens: 192, numSamples: 16 })];
    expect(await bestPauseMs(() => large.generate(requests))).toBeLessThan(50);
  });

  test('hears of a generation four times a second', async () => {
    const times: number[] = [];
    const abort = new AbortController();
    const call = endless(large, {
      signal: abort.signal,
      onProgress: () => {
        times.push(performance.now());
        if (times.length === 3) abort.abort();
      },
    });
    expect(await failureOf(() => call)).toMatchObject({ code: 'CANCELLED' });
    expect(times).toHaveLength(3);
    // A message may be taken later than the next one, by as much as this thread is busy.
    expect(times[2]! - times[0]!).toBeGreaterThan(400);
  });

  test('never stands still for 50 ms in forward, backward and step', async () => {
    await using policy = await large.createPolicy({ kind: 'full' });
    const work = async (): Promise<void> => {
      await anyPass(policy, sequences(12, 128));
      await policy.step({ learningRate: 1e-6 });
    };
    expect(await bestPauseMs(work)).toBeLessThan(50);
  });
});
