/**
 * Predicted versus measured peak memory on a CPU, for runs of random models at several shapes.
 *
 *   node scripts/studies/plan-check.mjs [CASE]...      (default: all; --list names them)
 *
 * Needs the built package (npm run build) and a few GB of memory and temporary space. Exits with 1 if a
 * prediction is off by more than 15%.
 */
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import bench from '../../dist/bench/index.js';
import acoer from '../../dist/index.js';
import { scriptArguments } from '../lib/arguments.mjs';

const TOLERANCE = 0.15;
const ASSETS = fileURLToPath(new URL('../../assets/tiny/', import.meta.url));

const shape = (vocabSize, hiddenSize, numLayers, numHeads, headDim) => ({
  ...bench.SHAPES.tiny,
  name: 'check',
  vocabSize,
  hiddenSize,
  intermediateSize: 3 * hiddenSize,
  numLayers,
  numHeads,
  numKvHeads: numHeads / 2,
  headDim,
  maxPositions: 4096,
});

/** Random weights never stop, so every completion has `tokens` tokens. */
const run = (group, tokens, dtype = 'bfloat16') => ({
  numGenerations: group,
  maxCompletionLength: tokens,
  maxSteps: 3,
  dtype,
});
const CASES = {
  '10M-fp32-small': { shape: shape(8192, 256, 8, 8, 64), config: run(16, 48, 'float32') },
  '10M-fp32': { shape: shape(8192, 256, 8, 8, 64), config: run(64, 96, 'float32') },
  '10M-bf16': { shape: shape(8192, 256, 8, 8, 64), config: run(64, 96) },
  '50M-bf16': { shape: shape(151_936, 256, 8, 8, 64), config: run(32, 32) },
  '50M-fp32': { shape: shape(151_936, 256, 8, 8, 64), config: run(32, 32, 'float32') },
  '110M-bf16': { shape: shape(151_936, 512, 12, 8, 64), config: run(64, 24) },
  '600M-bf16': { shape: bench.SHAPES['qwen3-0.6b'], config: run(8, 16) },
  '10M-fp32-full': {
    shape: shape(8192, 256, 8, 8, 64),
    config: { ...run(16, 48, 'float32'), full: true },
  },
  '600M-nf4': { shape: bench.SHAPES['qwen3-0.6b'], config: { ...run(8, 16), quantization: 'nf4' } },
  '600M-int8': { shape: bench.SHAPES['qwen3-0.6b'], config: { ...run(8, 16), quantization: 'int8' } },
  'smollm2-135m-bf16': { shape: bench.SHAPES['smollm2-135m'], config: run(16, 64) },
  'smollm2-135m-nf4': {
    shape: bench.SHAPES['smollm2-135m'],
    config: { ...run(16, 64), quantization: 'nf4', kvCacheDtype: 'int8' },
  },
  '20M-fp32': { shape: shape(32_000, 384, 6, 6, 64), config: run(24, 64, 'float32') },
  '160M-bf16': { shape: shape(100_000, 768, 10, 12, 64), config: run(16, 32) },
  // Not used when the constants were fitted:
  '6M-fp32': { shape: shape(4096, 256, 6, 4, 64), config: run(48, 40, 'float32') },
  '35M-bf16': { shape: shape(24_000, 512, 10, 8, 64), config: run(40, 64) },
  '60M-fp32': { shape: shape(40_000, 640, 8, 10, 64), config: run(16, 56, 'float32') },
  '20M-fp32-full': {
    shape: shape(20_000, 320, 8, 4, 80),
    config: { ...run(8, 64, 'float32'), full: true },
  },
};

async function measure({ shape: modelShape, config }) {
  const folder = mkdtempSync(join(tmpdir(), 'acoer-plan-check-'));
  try {
    const model = join(folder, 'model');
    await bench.writeRandomWeights(model, modelShape);
    for (const name of readdirSync(ASSETS)) {
      if (/^(tokenizer|generation_config)/.test(name)) copyFileSync(join(ASSETS, name), join(model, name));
    }
    const given = {
      ...config,
      preset: 'tiny',
      model,
      promptsPerStep: 1,
      reward: 'alternating',
      evalProblems: 0,
      evalSampledProblems: 0,
    };
    const out = join(folder, 'run');
    const words = [fileURLToPath(import.meta.url), '--run', JSON.stringify({ ...given, out })];
    const child = spawnSync(process.execPath, words, { encoding: 'utf8' });
    if (child.status !== 0) throw new Error(child.stderr);
    const lines = readFileSync(join(out, 'metrics.jsonl'), 'utf8').trim().split('\n');
    const measured = Math.max(...lines.map((line) => JSON.parse(line)['memory/peak_resident_bytes']));
    // In a child process, because a process has one peak for everything it ever did.
    return { measured, predicted: Number(child.stdout.trim().split('\n').at(-1)) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Runs in this process and prints the prediction made before the start. */
async function runHere(given) {
  // Every group has variance, so that every step trains.
  let count = 0;
  acoer.registerReward('alternating', () => count++ % 2);
  const { out, ...settings } = given;
  let plan;
  const onEvent = (event) => {
    if (event.type === 'plan') plan = event.plan;
  };
  const training = await acoer.train(settings, { out, onEvent });
  // The run's own plan expects completions to end; these do not.
  const { promptTokens, device } = plan;
  const { memory } = acoer.planRun({
    config: training.config,
    model: await acoer.plannedModel(training.config.model),
    device,
    promptTokens,
    lengths: { first: Infinity, last: Infinity },
  });
  await training.result();
  process.stdout.write(`${memory.peakBytes}\n`);
}

async function main(names) {
  let worst = 0;
  for (const name of names) {
    const { measured, predicted } = await measure(CASES[name]);
    const error = predicted / measured - 1;
    worst = Math.max(worst, Math.abs(error));
    const megabytes = (bytes) => `${(bytes / 1e6).toFixed(0)} MB`;
    console.log(
      `${name.padEnd(17)} predicted ${megabytes(predicted)}, measured ${megabytes(measured)}, ${(100 * error).toFixed(1)}%`,
    );
  }
  if (worst > TOLERANCE) process.exitCode = 1;
}

const { values, positionals } = scriptArguments(import.meta.url, {
  allowPositionals: true,
  options: { list: { type: 'boolean' }, run: { type: 'string' } },
});
const unknown = positionals.filter((name) => !Object.hasOwn(CASES, name));
if (unknown.length > 0) {
  console.error(`no case ${unknown.join(', ')}; choose from ${Object.keys(CASES).join(', ')}`);
  process.exitCode = 2;
} else if (values.list) console.log(Object.keys(CASES).join('\n'));
else if (values.run !== undefined) await runHere(JSON.parse(values.run));
else await main(positionals.length > 0 ? positionals : Object.keys(CASES));
