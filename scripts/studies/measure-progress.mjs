/**
 * What it costs to tell how far a generation has come: decoding with and without `onProgress`, alternately in
 * one process, and the time that progress.json takes from the run's own thread.
 *
 *   node scripts/studies/measure-progress.mjs [--model DIR] [--pairs 15] [--sequences 16] [--tokens 256] [--every 250]
 *
 * Without --model: the embedded one. --every: `progressEveryMs`; 0 reports after every token. Needs
 * `npm run build`.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as wait } from 'node:timers/promises';
import { scriptArguments } from '../lib/arguments.mjs';

const require = createRequire(import.meta.url);
const { createEngine } = require('../../dist/engine/engine.js');
const { TINY_MODEL } = require('../../dist/models/index.js');
const { ProgressFile, RunDirectory } = require('../../dist/run/index.js');
const { DecodeTracker } = require('../../dist/sampling/index.js');

const { values } = scriptArguments(import.meta.url, {
  options: {
    model: { type: 'string', default: TINY_MODEL },
    pairs: { type: 'string', default: '15' },
    sequences: { type: 'string', default: '16' },
    tokens: { type: 'string', default: '256' },
    every: { type: 'string', default: '250' },
  },
});
const [pairs, sequences, tokens, everyMs] = [values.pairs, values.sequences, values.tokens, values.every].map(
  Number,
);

const median = (numbers) => {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  return (sorted[Math.floor(middle - 0.5)] + sorted[Math.ceil(middle - 0.5)]) / 2;
};
const quantile = (sorted, q) => sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];

const engine = await createEngine({ device: 'cpu' });
const model = await engine.loadModel(values.model);
const request = {
  promptIds: Int32Array.from({ length: 32 }, (_, i) => i),
  numSamples: sequences,
  seed: 1n,
  maxNewTokens: tokens,
  stopIds: new Int32Array(),
};

/** Milliseconds of decoding, and how often it was reported. */
async function decode(told) {
  let reports = 0;
  const tracker = new DecodeTracker();
  tracker.begin([{ index: 0, problem: { id: 'p' } }]);
  // What a run does with a report.
  const onProgress = ({ promptTokens, inFlight }) => {
    reports++;
    const flying = Array.from({ length: inFlight.length / 3 }, (_, i) => ({
      prompt: inFlight[3 * i],
      sample: inFlight[3 * i + 1],
      tokens: inFlight[3 * i + 2],
    }));
    if (tracker.report({ promptTokens, inFlight: flying })) void tracker.decoding;
  };
  const options = { collect: false, ...(told && { onProgress, progressEveryMs: everyMs }) };
  const { stats } = await model.generate([request], options);
  return { ms: stats.decodeMs, reports };
}

await decode(false);
const ratios = [];
const silentMs = [];
let reports = 0;
for (let pair = 0; pair < pairs; pair++) {
  const times = {};
  for (const told of pair % 2 === 0 ? [false, true] : [true, false]) {
    const { ms, reports: count } = await decode(told);
    times[told] = ms;
    reports += count;
  }
  silentMs.push(times.false);
  ratios.push(times.true / times.false);
}
const resampled = Array.from({ length: 10_000 }, () =>
  median(ratios.map(() => ratios[Math.floor(Math.random() * ratios.length)])),
).sort((a, b) => a - b);
console.log(
  `decoding ${sequences} x ${tokens} tokens: ${median(silentMs).toFixed(0)} ms, ${(reports / pairs).toFixed(1)} reports`,
);
console.log(
  `with / without reports, median of ${pairs} pairs: ${median(ratios).toFixed(4)}, 95% ${quantile(resampled, 0.025).toFixed(4)} to ${quantile(resampled, 0.975).toFixed(4)}`,
);

await engine.dispose();

const folder = mkdtempSync(join(tmpdir(), 'acoer-progress-'));
try {
  const file = new ProgressFile(new RunDirectory(folder), console.error);
  const inFlight = Array.from({ length: 64 }, (_, i) => ({
    problemId: `math/test/algebra/${i}.json`,
    prompt: i,
    sample: 3,
    tokens: 1_000 + i,
  }));
  const shown = { phase: 'generate', step: 3, maxSteps: 1_200, kind: null, done: 9, total: 128 };
  const own = [];
  for (let i = 0; i < 20; i++) {
    const before = performance.eventLoopUtilization();
    file.show({ ...shown, tokens: i, tokensPerSecond: 500.5, sequences: inFlight }, true);
    await wait(110);
    own.push(performance.eventLoopUtilization(before).active);
  }
  await file.end(null);
  console.log(
    `progress.json of ${inFlight.length} sequences: ${median(own).toFixed(2)} ms of the run's thread a write, timers included (${Math.min(...own).toFixed(2)} to ${Math.max(...own).toFixed(2)})`,
  );
} finally {
  rmSync(folder, { recursive: true, force: true });
}
