#!/usr/bin/env node
/**
 * Time of a decode step with keys and values in the model's type and in int8, in turns, so that other work on the
 * machine meets both.
 *
 *   node scripts/kv-cache-speed.mjs [--model FOLDER] [--rows 16] [--context 1024] [--tokens 40] [--rounds 5] [--threads 1]
 *
 * Without a model: random weights of four layers of Qwen3-0.6B in bfloat16, with 8,192 tokens of vocabulary. The prompts
 * are random ids, a sample each, so that nothing is shared. Prints, per cache, the median and the quartiles
 * of a step's milliseconds: processor time of this process, and time on the clock. Prompts are left out.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import weights from '../dist/bench/random-weights.js';
import acoer from '../dist/index.js';
import shapes from '../dist/plan/shapes.js';
import { scriptArguments } from './lib/arguments.mjs';
import { spread } from './lib/spread.mjs';

const { values } = scriptArguments(import.meta.url, {
  options: {
    model: { type: 'string' },
    rows: { type: 'string', default: '16' },
    context: { type: 'string', default: '1024' },
    tokens: { type: 'string', default: '40' },
    rounds: { type: 'string', default: '5' },
    threads: { type: 'string', default: '1' },
  },
});
const [rows, context, tokens, rounds, threads] = ['rows', 'context', 'tokens', 'rounds', 'threads'].map(
  (name) => Number(values[name]),
);

const folder = values.model === undefined ? mkdtempSync(join(tmpdir(), 'acoer-kv-')) : null;
if (folder !== null) {
  await weights.writeRandomWeights(
    folder,
    { ...shapes.SHAPES['qwen3-0.6b'], numLayers: 4, vocabSize: 8192 },
    1,
  );
}
const { directory } = await acoer.resolveModel(folder ?? values.model);
const engine = await acoer.createEngine({ device: 'cpu', threads });
const model = await engine.loadModel(directory);
const { vocabSize } = model.info;
const requests = Array.from({ length: rows }, (_, row) => ({
  promptIds: Int32Array.from({ length: context }, (__, t) => (7919 * (row + 1) * (t + 1)) % vocabSize),
  seed: BigInt(row),
  maxNewTokens: tokens,
  stopIds: new Int32Array(),
}));

/** From the first report in which all sequences decode to the last one: without the prompts. */
async function stepMs(kvCacheDtype) {
  const seen = [];
  const onProgress = ({ inFlight }) => {
    const places = inFlight.length / 3;
    if (places < rows) return;
    const { user, system } = process.cpuUsage();
    seen.push({ made: inFlight[2], processor: (user + system) / 1000, clock: performance.now() });
  };
  await model.generate(requests, { maxSlots: rows, kvCacheDtype, onProgress, progressEveryMs: 0 });
  const [first, last] = [seen[0], seen.at(-1)];
  const steps = last.made - first.made;
  return {
    processor: (last.processor - first.processor) / steps,
    clock: (last.clock - first.clock) / steps,
  };
}

const found = { auto: [], int8: [] };
for (let round = -1; round < rounds; round++) {
  for (const kvCacheDtype of Object.keys(found)) {
    const measured = await stepMs(kvCacheDtype);
    if (round >= 0) found[kvCacheDtype].push(measured);
  }
}
for (const [kvCacheDtype, all] of Object.entries(found)) {
  const of = (name) =>
    spread(
      all.map((one) => one[name]),
      1,
    );
  console.log(`${kvCacheDtype}: processor ${of('processor')} ms a step, clock ${of('clock')} ms`);
}
const ratios = found.auto.map((auto, i) => found.int8[i].processor / auto.processor);
console.log(`int8 / auto by pairs, processor: ${spread(ratios, 2)}`);
await engine.dispose();
if (folder !== null) rmSync(folder, { recursive: true });
