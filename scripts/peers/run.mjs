/** Times acoer and its peers on the same work; see README.md beside this file. */
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import bench from '../../dist/bench/index.js';
import models from '../../dist/models/index.js';
import cost from '../../dist/plan/cost.js';
import { scriptArguments } from '../lib/arguments.mjs';
import { messageOf } from '../lib/errors.mjs';

const { embeddingParameters, parameterCount } = cost;
const HERE = fileURLToPath(new URL('.', import.meta.url));
const TINY = {
  hidden_size: 96,
  num_hidden_layers: 3,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 32,
  intermediate_size: 288,
  vocab_size: 512,
  tie_word_embeddings: true,
  max_position_embeddings: 1024,
};
const TINY_SHAPE = {
  ...bench.SHAPES.tiny,
  name: 'peers',
  vocabSize: TINY.vocab_size,
  hiddenSize: TINY.hidden_size,
  intermediateSize: TINY.intermediate_size,
  numLayers: TINY.num_hidden_layers,
  numHeads: TINY.num_attention_heads,
  numKvHeads: TINY.num_key_value_heads,
  headDim: TINY.head_dim,
  maxPositions: TINY.max_position_embeddings,
};
const STEP = { promptTokens: 24, group: 16, newTokens: 128, steps: 5 };

const decode = (batch, context, steps) => ({ job: 'decode', batch, context, steps });
/** What each peer is asked for in each job. */
const JOBS = {
  'decode-1x64': everyDecoder(decode(1, 64, 12)),
  'decode-2x64': everyDecoder(decode(2, 64, 12)),
  'decode-16x64': everyDecoder(decode(16, 64, 12)),
  'decode-64x64': everyDecoder(decode(64, 64, 12)),
  'decode-1x1024': everyDecoder(decode(1, 1024, 8)),
  'decode-16x1024': {
    ...withoutLlama(everyDecoder(decode(16, 1024, 6))),
    'acoer, 16 prompts': { ...decode(16, 1024, 6), prompts: 16 },
  },
  'prefill-512': everyPrefill(512),
  'prefill-2048': everyPrefill(2048),
  'train-512': {
    acoer: train(),
    'acoer, 4 GB': train(),
    PEFT: train(),
    'PEFT, checkpointing': train(),
  },
  'step-16': everyStep(1),
  'step-32': everyStep(2),
};

/** Acoer's sequences are samples of one prompt, as in GRPO, and read one copy of its keys and values. */
function everyDecoder(job) {
  const samples = { ...job, prompts: 1 };
  return {
    acoer: samples,
    'acoer with LoRA': { ...samples, lora: true },
    transformers: job,
    'llama.cpp': job,
    vLLM: job,
  };
}
/** It would have to compute all 16 prompts, for minutes. */
function withoutLlama({ 'llama.cpp': _, ...others }) {
  return others;
}
function everyPrefill(tokens) {
  const job = { job: 'prefill', tokens };
  return { acoer: job, transformers: job, 'llama.cpp': job, vLLM: job };
}
function train() {
  return { job: 'train', tokens: 512 };
}
/** What is changed in a job for the untimed one before it: memory that lay idle is slow at first. */
const WARM_UP = {
  decode: { batch: 1, context: 16, steps: 2 },
  prefill: { tokens: 32 },
  train: { tokens: 16 },
  step: { steps: 1 },
};
/** Threads of the peer before may still spin or give memory back. */
const SETTLE_MS = 2_000;

function everyStep(prompts) {
  const own = { job: 'step', ...STEP, prompts };
  const trl = { ...own, shape: TINY };
  return { 'acoer, tiny': own, TRL: trl, 'TRL, fp32, no checkpointing': trl };
}

/** A process that answers one job at a time. */
class Peer {
  constructor(name, command, words) {
    this.name = name;
    this.child = spawn(command, words, {
      env: { ...process.env, TRANSFORMERS_VERBOSITY: 'error' },
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    this.lines = createInterface({ input: this.child.stdout })[Symbol.asyncIterator]();
  }

  async next() {
    const { value, done } = await this.lines.next();
    if (done) throw new Error(`${this.name} ended`);
    return JSON.parse(value);
  }

  ask(job) {
    this.child.stdin.write(`${JSON.stringify(job)}\n`);
    return this.next();
  }

  end() {
    this.child.kill();
  }
}

/** Which process answers for which row of the table, and how it is started. */
function commands({ python, vllm, threads, scratch, model }, { vocabSize }) {
  const node = (script, ...words) => [process.execPath, [join(HERE, script), ...words, threads]];
  const py = (script, ...words) => [python, [join(HERE, script), threads, ...words]];
  const folder = model ?? join(scratch, 'model');
  return {
    acoer: node('acoer-peer.mjs', folder, 'bfloat16', '0'),
    // So little beyond the weights that no layer's activations are kept.
    'acoer, 4 GB': node('acoer-peer.mjs', folder, 'bfloat16', '4e9'),
    'acoer, tiny': node('acoer-peer.mjs', join(scratch, 'tiny'), 'float32', '0'),
    transformers: py('transformers_peer.py', ...(model === undefined ? [] : [model])),
    PEFT: py('peft_peer.py', '0'),
    'PEFT, checkpointing': py('peft_peer.py', '1'),
    TRL: py('trl_peer.py', '1'),
    'TRL, fp32, no checkpointing': py('trl_peer.py', '0'),
    'llama.cpp': node('llama-peer.mjs', join(scratch, 'model.gguf'), vocabSize),
    vLLM: [vllm, [join(HERE, 'vllm_peer.py'), threads, model]],
  };
}

function run(command, words) {
  return new Promise((resolve, reject) => {
    spawn(command, words, { stdio: 'inherit' }).on('exit', (code) =>
      code === 0 ? resolve() : reject(new Error(`${command} ended with ${code}`)),
    );
  });
}

async function makeModels({ python, scratch, model }, rows) {
  await mkdir(scratch, { recursive: true });
  const ensure = (folder, shape) =>
    existsSync(join(scratch, folder, 'model.safetensors')) ||
    mkdir(join(scratch, folder), { recursive: true }).then(() =>
      bench.writeRandomWeights(join(scratch, folder), shape),
    );
  if (rows.has('acoer') && model === undefined) await ensure('model', bench.SHAPES['qwen3-1.7b']);
  if (rows.has('acoer, tiny')) await ensure('tiny', TINY_SHAPE);
  const gguf = join(scratch, 'model.gguf');
  const from = model === undefined ? [] : [model];
  if (rows.has('llama.cpp') && !existsSync(gguf))
    await run(python, [join(HERE, 'make_gguf.py'), gguf, ...from]);
}

const sorted = (values) => [...values].sort((a, b) => a - b);
const median = (values) => sorted(values)[values.length >> 1];
/** Median and range of `values`, with about three digits. */
const ranged = (values, scale) => {
  const shown = (value) => (value * scale).toFixed(value * scale < 99.95 ? 1 : 0);
  return `${shown(median(values))} (${shown(sorted(values)[0])}-${shown(sorted(values).at(-1))})`;
};

/** The least time of a job: bytes over bandwidth or FLOPs over the matmul rate. */
function floorSeconds(job, shape, { readBytesPerSecond, matmulFlopsPerSecond }) {
  const parameters = parameterCount(shape);
  const { numLayers: layers, headDim } = shape;
  if (job.job === 'decode') {
    const caches = job.prompts ?? job.batch;
    const keyValueBytes = layers * 2 * shape.numKvHeads * headDim * 2;
    const bytes = 2 * parameters + caches * job.context * keyValueBytes;
    return Math.max(bytes / readBytesPerSecond, (2 * parameters * job.batch) / matmulFlopsPerSecond);
  }
  const inLayers = parameters - embeddingParameters(shape);
  // Scores and weighted values of the tokens before; their gradients take at least twice as much.
  const attention = layers * 2 * shape.numHeads * headDim * job.tokens;
  const flops = job.job === 'prefill' ? 2 * inLayers + attention : 4 * parameters + 3 * attention;
  return (flops * job.tokens) / matmulFlopsPerSecond;
}

function table(results, ceilings, shape) {
  const typical = {
    readBytesPerSecond: median(ceilings.map((c) => c.readBytesPerSecond)),
    matmulFlopsPerSecond: median(ceilings.map((c) => c.matmulFlopsPerSecond)),
  };
  const lines = [
    '| job | program | ms | of acoer | of the floor | memory, MB |',
    '| --- | --- | --- | --- | --- | --- |',
  ];
  for (const [name, rows] of Object.entries(results)) {
    const own = rows.acoer ?? rows['acoer, tiny'];
    for (const [row, answers] of Object.entries(rows)) {
      const seconds = answers.map((a) => a.seconds);
      // A step's figure is per token, since TRL's completions may end early.
      const perToken = answers.map((a) => a.seconds / (a.tokens ?? 1));
      const ratio = median(perToken) / median(own.map((a) => a.seconds / (a.tokens ?? 1)));
      const floor = name.startsWith('step') ? null : floorSeconds(JOBS[name][row], shape, typical);
      const bytes = answers.map((answer) => answer.bytes);
      const memory = bytes[0] === undefined ? '' : ranged(bytes, 1e-6);
      lines.push(
        `| ${name} | ${row} | ${ranged(seconds, 1000)} | ${ratio.toFixed(2)} | ${floor === null ? '' : (median(seconds) / floor).toFixed(2)} | ${memory} |`,
      );
    }
  }
  const reads = ceilings.map((c) => c.readBytesPerSecond);
  const products = ceilings.map((c) => c.matmulFlopsPerSecond);
  const kernels = process.env.ACOER_CPU_KERNELS ?? 'kernels chosen at run time';
  const machine = [
    `${cpus()[0].model.trim()}, ${cpus().length} cores, ${kernels}`,
    `read bandwidth ${ranged(reads, 1e-9)} GB/s`,
    `matmul rate ${ranged(products, 1e-9)} GFLOP/s`,
  ];
  return [machine.join('; '), '', ...lines].join('\n');
}

const shapeIn = (folder) =>
  models.readModelSpec(folder).catch((error) => {
    console.error(messageOf(error));
    process.exit(2);
  });

async function hasLlama() {
  return import('node-llama-cpp').then(
    () => true,
    () => false,
  );
}

async function main() {
  const { values, positionals } = scriptArguments(import.meta.url, {
    allowPositionals: true,
    options: {
      python: { type: 'string', default: 'python3' },
      threads: { type: 'string', default: String(cpus().length) },
      rounds: { type: 'string', default: '3' },
      scratch: { type: 'string' },
      model: { type: 'string' },
      vllm: { type: 'string' },
      out: { type: 'string' },
      without: { type: 'string', multiple: true, default: [] },
    },
  });
  const unknown = positionals.filter((name) => !Object.hasOwn(JOBS, name));
  if (unknown.length > 0) {
    console.error(`unknown job ${unknown.join(', ')}; jobs are ${Object.keys(JOBS).join(', ')}`);
    process.exit(2);
  }
  const others = [...new Set(Object.values(JOBS).flatMap(Object.keys))].filter(
    (row) => !row.startsWith('acoer'),
  );
  const notLeft = values.without.filter((name) => !others.includes(name));
  if (notLeft.length > 0) {
    console.error(`cannot leave out ${notLeft.join('; ')}: peers are ${others.join('; ')}`);
    process.exit(2);
  }
  const { model } = values;
  const known = Object.keys(JOBS).filter((name) => model === undefined || /^(decode|prefill)/.test(name));
  const apart = positionals.filter((name) => !known.includes(name));
  if (apart.length > 0) {
    console.error(`--model is for the jobs of decoding and prompts, not ${apart.join(', ')}`);
    process.exit(2);
  }
  if (values.vllm !== undefined && model === undefined) {
    console.error('--vllm needs --model: vLLM is asked about a real model only');
    process.exit(2);
  }
  const names = positionals.length > 0 ? positionals : known;
  const shape = model === undefined ? bench.SHAPES['qwen3-1.7b'] : await shapeIn(model);
  const scratch = values.scratch ?? mkdtempSync(join(tmpdir(), 'acoer-peers-'));
  const left = new Set(values.without);
  if (!(await hasLlama())) left.add('llama.cpp');
  if (values.vllm === undefined) left.add('vLLM');
  const startedBy = (row) => (['acoer with LoRA', 'acoer, 16 prompts'].includes(row) ? 'acoer' : row);
  const work = names.map((name) => [name, Object.entries(JOBS[name]).filter(([row]) => !left.has(row))]);
  const rows = new Set(work.flatMap(([, jobs]) => jobs.map(([row]) => startedBy(row))));
  rows.add('acoer');
  const settings = { ...values, scratch };
  await makeModels(settings, rows);
  const peers = new Map();
  for (const [row, [command, words]] of Object.entries(commands(settings, shape))) {
    if (!rows.has(row)) continue;
    peers.set(row, new Peer(row, command, words));
    await peers.get(row).next();
  }
  const results = Object.fromEntries(
    work.map(([name, jobs]) => [name, Object.fromEntries(jobs.map(([row]) => [row, []]))]),
  );
  const ceilings = [];
  for (let round = 0; round < Number(values.rounds); round++) {
    ceilings.push(await peers.get('acoer').ask({ job: 'ceilings' }));
    for (const [name, jobs] of work) {
      for (const [row, job] of jobs) {
        await setTimeout(SETTLE_MS);
        await peers.get(startedBy(row)).ask({ ...job, ...WARM_UP[job.job] });
        const answer = await peers.get(startedBy(row)).ask(job);
        results[name][row].push(answer);
        console.error(`${round + 1} ${name} ${row}: ${(answer.seconds * 1000).toFixed(0)} ms`);
      }
    }
  }
  for (const peer of peers.values()) peer.end();
  if (values.scratch === undefined) rmSync(scratch, { recursive: true, force: true });
  const text = table(results, ceilings, shape);
  console.log(text);
  if (values.out !== undefined) writeFileSync(values.out, `${text}\n`);
}

await main();
