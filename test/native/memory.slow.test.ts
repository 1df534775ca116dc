/** Native memory: V8 hears of it, dispose frees it, and what is forgotten is collected. */
import { createEngine } from '../../src/engine/engine';
import type { Engine } from '../../src/engine/types';
import { request, sequences } from '../helpers/engine-calls';
import { runChild } from '../helpers/engine-child';
import { anyPass } from '../helpers/training';
import { randomModel } from '../helpers/random-model';

const MIB = 2 ** 20;
/** 31 MB of weights. */
const directory = randomModel({
  vocabSize: 8192,
  hiddenSize: 512,
  intermediateSize: 1024,
  numLayers: 2,
  numHeads: 8,
});

let engine: Engine;
beforeAll(async () => {
  engine = await createEngine({ device: 'cpu', threads: 1 });
});
afterAll(() => engine.dispose());

const residentMiB = async (): Promise<number> => (await engine.memory()).residentBytes / MIB;

/**
 * Full collections of a process while 30 models of `directory` are loaded by an engine nobody collects. In a process of
 * its own: with the heap that Jest has, V8 may not end one before the last model is loaded.
 */
async function collectionsWhileLoading(directory: string): Promise<number> {
  const script = `
    const { constants, PerformanceObserver } = require('node:perf_hooks');
    let collections = 0;
    const count = (list) => {
      const isFull = ({ detail }) => detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR;
      collections += list.getEntries().filter(isFull).length;
    };
    new PerformanceObserver(count).observe({ entryTypes: ['gc'] });
    const { engine } = await load();
    for (let i = 1; i < 30; i++) await load(engine);
    await engine.dispose();
    console.log(collections);
  `;
  const { code, stdout, stderr } = await runChild(script, { model: directory });
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return Number(stdout);
}

test('V8 hears of native memory: it collects for large models and not for small ones', async () => {
  // No JavaScript interface shows the number itself; that V8 acts on it does.
  const small = await collectionsWhileLoading(randomModel());
  expect(await collectionsWhileLoading(directory)).toBeGreaterThan(small + 3);
});

test('disposed models give their memory back', async () => {
  const load = async (): Promise<void> => {
    await using model = await engine.loadModel(directory);
    await using policy = await model.createPolicy({ kind: 'full' });
    await policy.zeroGradients();
  };
  await load();
  const before = await residentMiB();
  for (let i = 0; i < 10; i++) await load();
  expect((await residentMiB()) - before).toBeLessThan(40);
  expect((await engine.memory()).engineBytes).toBe(0);
});

test('models and policies nobody disposed do not grow the process', async () => {
  const before = await residentMiB();
  const loads = 40;
  let bytes = 0;
  for (let i = 0; i < loads; i++) {
    const model = await engine.loadModel(directory);
    await model.createPolicy({ kind: 'lora', rank: 4, alpha: 8, seed: BigInt(i) });
    bytes = model.info.bytes;
  }
  // The collector may lag by some models; without it, all of them would be here.
  expect((await residentMiB()) - before).toBeLessThan((loads * bytes) / MIB / 2);
});

test('a hundred rounds of generate, forward, backward and step keep the process as large as it is', async () => {
  await using model = await engine.loadModel(randomModel());
  await using policy = await model.createPolicy({ kind: 'lora', rank: 4, alpha: 8, seed: 1n });
  const rounds = async (count: number): Promise<void> => {
    for (let i = 0; i < count; i++) {
      await model.generate([request({ numSamples: 4, maxNewTokens: 16, policy })]);
      await anyPass(policy, sequences(4, 16));
      await policy.step({ learningRate: 1e-4 });
    }
  };
  await rounds(20);
  const before = await residentMiB();
  await rounds(100);
  expect((await residentMiB()) - before).toBeLessThan(0.05 * before);
});
