/**
 * What the file fuzzer reads, by kind: whole files to start from, and the readers that a user's file of that
 * kind goes through. The readers are those of the compiled package.
 */
'use strict';

const { createHash } = require('node:crypto');
const { readFileSync, mkdirSync, writeFileSync } = require('node:fs');
const { join } = require('node:path');
const { gzipSync } = require('node:zlib');
const verifier = require('./fuzz-answers.cjs');
const hub = require('./fuzz-hub.cjs');
const { adapterConfig, adapterTensors, ggufModel, modelConfig, modelSeeds, modelTensors, parts, safetensors, tiny, together } =
  require('./fuzz-seeds.cjs'); // prettier-ignore
const tokenizers = require('./fuzz-tokenizers.cjs');

const root = join(__dirname, '..', '..');
/** @param {string} name @returns {any} */
const dist = (name) => require(join(root, 'dist', name));
const verifierPackage = () => require(join(root, 'packages/verify'));

/**
 * @typedef {object} Kind
 * @property {() => Record<string, Buffer> | Promise<Record<string, Buffer>>} seeds by file name
 * @property {(path: string, bytes: Buffer, folder: string) => unknown} read
 *   `path` contains `bytes`; `folder` is empty
 * @property {(random: () => number, bytes: Buffer, other: Buffer, words: readonly string[]) => Buffer} [mutate]
 *   default: of files
 * @property {string[]} [refused] the seeds that are answered with an error; the others must be read
 * @property {number} [cpuMs] what one input may cost, if not what others may
 */

/** @param {unknown} value */
const json = (value) => Buffer.from(JSON.stringify(value));
/** @param {string} folder @param {Record<string, string | Buffer>} files */
function put(folder, files) {
  mkdirSync(folder, { recursive: true });
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content);
}
const shardedModel = () =>
  /** @type {[config: Buffer, index: Buffer, a: Buffer, b: Buffer]} */ (parts(modelSeeds().model.sharded));

const ROWS = [
  { id: 'a', problem: 'What is 1 + 2?', answer: '3', solution: 'It is \\boxed{3}.', level: 'Level 1' },
  { id: 'b', question: 'Half of 7?', answer: 3.5, level: 2, extra: { deep: [1, { x: null }] } },
  { prompt: [{ role: 'system', content: 's' }, { role: 'user', content: 'Name two primes.' }], answer: ['2', '3'] },
]; // prettier-ignore
const lines = (/** @type {unknown[]} */ rows) =>
  Buffer.from(rows.map((row) => `${JSON.stringify(row)}\n`).join(''));

/** Wall time in ms of reading a small file of Parquet; null: not known yet. @type {number | null} */
let threadMs = null;

/** @param {() => Promise<unknown>} read */
async function timed(read) {
  const started = performance.now();
  await read();
  const ms = performance.now() - started;
  threadMs = threadMs === null ? ms : 0.9 * threadMs + 0.1 * ms;
}

/**
 * Reads a file of Parquet. How long its thread may be silent depends on how busy the machine is, because
 * starting a thread takes time.
 * @param {() => Promise<unknown>} read
 */
async function withThread(read) {
  const { PARQUET_LIMITS, parquetRows } = dist('parquet/index.js');
  if (threadMs === null) {
    const path = join(process.env.FUZZ_FOLDER ?? '', 'small.parquet');
    writeFileSync(path, await parquet({ a: [1] }));
    await timed(async () => {
      const rows = parquetRows(path, { path, zipped: false }, () => ['a']);
      await rows.next();
      await rows.return();
    });
  }
  PARQUET_LIMITS.waitMs = Math.min(60_000, Math.max(2_000, 8 * (threadMs ?? 0)));
  await timed(read);
}

/** @param {string} path */
async function readRows(path) {
  const { collectProblems } = dist('data/collect.js');
  const references = dist('judges/index.js').referenceRule({ judge: 'math', judgeParams: {} });
  const options = {
    columns: {},
    skipBadRows: true,
    dropUnparsedGold: false,
    levels: null,
    references,
    keepRows: true,
  };
  const read = () => collectProblems('set', [{ path, label: path }], options);
  await (path.endsWith('.parquet') ? withThread(read) : read());
}

const COMPLETIONS = [
  { completion: 'So \\boxed{3}.', answer: '3', id: 'a', total_tokens: 9, finish: 'stop' },
  { response: { body: { choices: [{ message: { content: '\\boxed{4}', reasoning_content: 'hm' }, finish_reason: 'length' }], usage: { completion_tokens: 7 } } }, gold: 4, custom_id: 'b' },
  { outputs: [{ text: '5', token_ids: [1, 2] }], gold: '5' },
  { resps: [['\\boxed{6}']], doc: { answer: '6', level: 'Level 3' }, doc_id: 4 },
]; // prettier-ignore

const STORED = {
  step: [1, 1], prompt: ['p', 'q'], completion: ['\\boxed{3}', 'x'], reward: [1, 0], prompt_index: [0, 1], problem_id: ['a', 'b'],
  level: ['1', null], gold: ['3', '4'], sample: [0, 0], correct: [true, false], status: ['correct', 'incorrect'], extracted: ['3', null],
  format_ok: [true, false], thinking_tokens: [3, 4], thinking_closed: [true, true], total_tokens: [5, 6], finish: ['stop', 'length'],
}; // prettier-ignore

/** @param {Record<string, unknown[]>} columns @param {string} [codec] */
async function parquet(columns, codec) {
  const { parquetWriteBuffer } = await import('hyparquet-writer');
  const columnData = Object.entries(columns).map(([name, data]) => ({ name, data }));
  return Buffer.from(parquetWriteBuffer({ columnData, codec: /** @type {any} */ (codec) }));
}

const CONFIG = {
  preset: 'tiny', model: 'tiny', dataset: 'tiny', reward: [{ name: 'acoer', weight: 1, params: { alpha: 0.3 } }], learningRate: 1e-4,
  maxSteps: 3, columns: { problem: 'q' }, rewardModules: { own: './own.js' }, monitor: { spanGroups: 4 }, levels: ['1'], evalSteps: 2,
}; // prettier-ignore

/** @param {string} path */
function readConfig(path) {
  const { readConfigFile, resolveConfig, mergeLayers } = dist('config/index.js');
  const given = readConfigFile(path);
  mergeLayers([given]);
  return resolveConfig([given], undefined, ['acoer', 'binary', 'format']);
}

const STATE = {
  version: 2, maker: { acoer: '0.1.0', node: 'v20', device: 'cpu' }, configHash: '0', config: CONFIG, datasetSize: 8,
  loop: { step: 1, cursor: 8, numTokens: 99, rewardStates: { acoer: { alpha: 0.5 } }, eased: { rollbacks: 0, pressure: 1 } },
  batch: { tokens: 9, metrics: { reward: 1 }, updatesDone: 1 }, base: null, latest: null,
  best: { step: 1, accuracy: 0.5, thinkingTokens: 3 }, pending: null, data: null,
  guard: { healthy: null, collapse: null },
}; // prettier-ignore
const state = () => ({
  ...STATE,
  guard: { ...STATE.guard, monitor: dist('monitor/index.js').initialMonitorState() },
});

const EARLIER_SFT = {
  step: 1,
  numTokens: 9,
  loss: { first: 2, last: 1 },
  memory: { microBatchTokens: null, maxSlots: null },
};
const SUPERVISED = {
  version: 2, method: 'sft', maker: STATE.maker, config: { model: 'tiny', dataset: 'a.jsonl', epochs: 1, maxSteps: 3 },
  identity: { model: { 'config.json': 'a' }, tokenizer: {}, adapter: {}, data: { rows: 'b', evaluation: 'c' } },
  sft: {
    ...EARLIER_SFT, base: { loss: 2, entropy: 1 }, latest: { step: 1, loss: 1, entropy: 1 }, best: { step: 1, loss: 1 },
    pending: { step: 1, loss: 1, entropy: null },
  },
}; // prettier-ignore

function rollouts() {
  const { encodeSafetensors } = dist('run/index.js');
  const tensors = new Map();
  for (const name of ['prompt_index', 'sample', 'reward', 'advantage', 'masked', 'skipped'])
    tensors.set(name, { shape: [2], data: Float64Array.of(0, 1) });
  for (const name of ['prompt_ids', 'completion_ids', 'logprobs', 'entropies', 'old_logprobs', 'ref_logprobs']) {
    const data = name.endsWith('_ids') ? Int32Array.of(1, 2, 3) : Float64Array.of(-1, -2, -3);
    tensors.set(name, { shape: [3], data }).set(`${name}.lengths`, { shape: [2], data: Int32Array.of(1, 2) });
  }
  return encodeSafetensors(tensors);
} // prettier-ignore

/**
 * A run folder with one checkpoint.
 * @param {Record<string, string | Buffer>} files of the checkpoint
 * @param {boolean} sums correct checksums
 */
function putRun(/** @type {string} */ folder, files, sums) {
  put(folder, { 'config.json': json(CONFIG) });
  const weights = { 'adapter_model.safetensors': 'a', 'optimizer.safetensors': 'o' };
  const all = { ...weights, 'state.json': json(state()), ...files };
  put(join(folder, 'checkpoints', 'step-000001'), all);
  if (!sums) return;
  const list = Object.entries(all).map(
    ([name, content]) => `${createHash('sha256').update(content).digest('hex')}  ${name}\n`,
  );
  put(join(folder, 'checkpoints', 'step-000001'), { SHA256SUMS: list.join('') });
}

/** Reads a run as `--resume` does. @param {string} folder */
async function readRun(folder) {
  const { findCheckpoint, readRollbacks, completeRollbacks, RunDirectory } = dist('run/index.js');
  const { runStateOf } = dist('train/state.js');
  const { resolveConfig } = dist('config/index.js');
  const run = new RunDirectory(folder);
  completeRollbacks(run);
  readRollbacks(run);
  const checkpoint = await findCheckpoint(run, () => undefined, 0);
  if (checkpoint !== null) runStateOf(checkpoint, resolveConfig([CONFIG]));
}

const LINE = { step: 1, loss: 0.5, reward: 1, 'completions/mean_length': 12.5 };
const ROLLBACK = { number: 1, from: 9, to: 1, pressure: 0.5, reason: 'why', done: false };

/** @type {Promise<any> | null} */
let engine = null;
/** The engine of this process, and a model for the adapters. */
const native = () =>
  (engine ??= (async () => {
    const { createEngine } = dist('engine/engine.js');
    const folder = join(process.env.FUZZ_FOLDER ?? '', 'base');
    put(folder, { 'config.json': json(modelConfig()), 'model.safetensors': safetensors(modelTensors()) });
    const made = await createEngine({ device: 'cpu', threads: 1 });
    return { engine: made, model: await made.loadModel(folder), folder };
  })());

/**
 * @param {Record<string, string>} names of the sections by number of sections
 * @param {Buffer} bytes
 * @param {string} folder
 */
function putSections(names, bytes, folder) {
  const sections = parts(bytes);
  const list = (names[sections.length] ?? names.more ?? '').split(' ');
  put(folder, Object.fromEntries(list.map((name, i) => [name, sections[i] ?? Buffer.alloc(0)])));
}

/** @type {Record<string, Kind>} */
const KINDS = {
  config: {
    seeds: () => ({
      'config.json': json(CONFIG),
      'tiny.yaml': readFileSync(join(root, 'configs', 'tiny.yaml')),
      'paper.yaml': readFileSync(join(root, 'configs', 'paper.yaml')),
      'anchors.yaml': Buffer.from('model: &m tiny\ndataset: *m\nreward: &r\n  - &one {name: acoer, weight: 1}\n  - name: binary\n    weight: 0.5\nlevels: !!seq ["1", !!str 2]\nlearningRate: .1e-3\n'),
    }),
    read: readConfig,
  },
  hub: { seeds: hub.seeds, refused: ['gated', 'missing', 'busy', 'portal'], read: (_, bytes, folder) => hub.readHub(dist, bytes, folder) },
  verify: { seeds: verifier.seeds, mutate: verifier.mutate, cpuMs: 1_000, read: (_, bytes) => verifier.judge(verifierPackage(), bytes) },
  data: {
    seeds: async () => {
      const columns = { problem: ['1+1?', '2+2?'], answer: ['2', '4'], level: [1, 2], id: ['x', 'y'] };
      const csv = Buffer.from('id,problem,answer,level\na,"What, is\n""1""?",1,2\nb,2?,2,\n');
      return {
        'rows.jsonl': lines(ROWS), 'rows.json': json(ROWS), 'rows.csv': csv, 'rows.tsv': Buffer.from(csv.toString().replaceAll(',', '\t')),
        'rows.jsonl.gz': gzipSync(lines(ROWS)), 'rows.parquet': await parquet(columns), 'plain.parquet': await parquet(columns, 'UNCOMPRESSED'),
        'nested.parquet': await parquet({ question: ['a'], answer: [['1', '2']], extra: [{ a: 1 }] }),
        'many.parquet': await parquet({ problem: Array.from({ length: 300 }, (_, i) => `p${i % 5}`), answer: Array.from({ length: 300 }, (_, i) => `${i % 3}`) }),
      };
    },
    read: readRows,
  },
  card: {
    seeds: () => ({
      'README.md': Buffer.from('---\nconfigs:\n- config_name: main\n  default: true\n  data_dir: data\n  data_files:\n  - split: train\n    path: "*.parquet"\n  - split: test\n    path: [b.jsonl]\n---\nText.\n'),
      'plain.md': Buffer.from('---\nlicense: mit\nconfigs:\n  config_name: a\n  data_files: "**"\n---\n'),
    }),
    read: (_, bytes) => {
      const { chooseFiles } = dist('data/files.js');
      const paths = ['data/train-00000-of-00001.parquet', 'data/b.jsonl', 'other/test.csv', 'README.md'];
      return chooseFiles('set', paths, bytes.toString(), { config: null, splits: ['train', 'test'], orOnly: true });
    },
  },
  tokenizer: {
    seeds: tokenizers.seeds,
    read: (_, bytes, folder) => {
      putSections({ more: 'tokenizer.json tokenizer_config.json' }, bytes, folder);
      put(folder, { 'generation_config.json': tiny('generation_config.json') });
      return tokenizers.use(dist, folder);
    },
  },
  template: {
    seeds: tokenizers.templates,
    read: (_, bytes, folder) => {
      put(folder, { 'chat_template.jinja': bytes, 'tokenizer.json': tiny('tokenizer.json'), 'tokenizer_config.json': tiny('tokenizer_config.json') });
      return tokenizers.use(dist, folder);
    },
  },
  plan: {
    seeds: () => ({ 'config.json': json(modelConfig()), 'tiny.json': tiny('config.json') }),
    read: async (_, bytes, folder) => {
      put(join(folder, 'model'), { 'config.json': bytes });
      return dist('plan/model-shape.js').plannedModel(join(folder, 'model'));
    },
  },
  spec: {
    seeds: () => ({
      hub: json(modelConfig()),
      transformers: json({ ...modelConfig(), rope_theta: undefined, torch_dtype: undefined, dtype: 'bfloat16', rope_parameters: { rope_theta: 1e6, rope_type: 'default' }, layer_types: ['full_attention', 'full_attention'], sliding_window: null, attention_bias: false, use_sliding_window: false, hidden_act: 'silu', quantization_config: null }),
    }),
    read: async (_, bytes, folder) => {
      put(folder, { 'config.json': bytes });
      const spec = await dist('models/index.js').readModelSpec(folder);
      for (const [name, value] of Object.entries(spec)) {
        if (typeof value === 'number' && !(Number.isFinite(value) && value > 0)) throw new Error(`${name} is ${value}`);
      }
    },
  },
  header: {
    seeds: () => ({ ...modelSeeds().header, ...modelSeeds().restore }),
    read: async (path, bytes) => {
      const files = await dist('models/index.js').openTensorFiles([path]);
      try {
        for (const { begin, end } of files.table.tensors) {
          if (!(begin >= 8 && begin <= end && end <= bytes.length)) throw new Error(`a tensor at ${begin} to ${end}`);
        }
      } finally {
        await files[Symbol.asyncDispose]();
      }
    },
  },
  index: {
    seeds: () => ({ index: shardedModel()[1] }),
    read: async (_, bytes, folder) => {
      const [config, , a, b] = shardedModel();
      put(folder, { 'config.json': config, 'model.safetensors.index.json': bytes, 'a.safetensors': a, 'b.safetensors': b });
      await (await dist('models/index.js').openModelFiles(folder))[Symbol.asyncDispose]();
    },
  },
  lora: {
    seeds: () => ({ lora: json({ ...adapterConfig(), use_rslora: false, alpha_pattern: {}, layers_to_transform: null }), all: json({ ...adapterConfig(), target_modules: 'all-linear' }) }),
    read: async (_, bytes, folder) => {
      put(folder, { 'adapter_config.json': bytes, 'adapter_model.safetensors': safetensors(adapterTensors()) });
      await (await dist('models/index.js').openAdapter(folder, 2))[Symbol.asyncDispose]();
    },
  },
  tensors: {
    refused: ['types'],
    seeds: () => ({ rollouts: rollouts(), types: modelSeeds().header.types }),
    read: (path, bytes) => dist('run/safetensors.js').decodeSafetensors(bytes, path),
  },
  state: {
    seeds: () => ({ 'state.json': json(state()), closed: json({ ...state(), batch: null }) }),
    read: (_, bytes, folder) => {
      putRun(folder, { 'state.json': bytes, 'rollouts.safetensors': rollouts() }, true);
      return readRun(folder);
    },
  },
  supervised: {
    seeds: () => ({ 'state.json': json(SUPERVISED), earlier: json({ ...SUPERVISED, sft: EARLIER_SFT }) }),
    read: async (_, bytes, folder) => {
      putRun(folder, { 'state.json': bytes }, true);
      const { findCheckpoint, RunDirectory } = dist('run/index.js');
      const checkpoint = await findCheckpoint(new RunDirectory(folder), () => undefined, 0);
      if (checkpoint !== null) dist('sft/state.js').storedSft(checkpoint);
    },
  },
  rollouts: {
    seeds: () => ({ rollouts: rollouts() }),
    read: (_, bytes, folder) => {
      putRun(folder, { 'rollouts.safetensors': bytes }, true);
      return readRun(folder);
    },
  },
  sums: {
    seeds: () => ({ sums: Buffer.from(['adapter_model.safetensors', 'optimizer.safetensors', 'state.json'].map((name) => `${'0'.repeat(64)}  ${name}\n`).join('')) }),
    read: (_, bytes, folder) => {
      putRun(folder, { SHA256SUMS: bytes }, false);
      return readRun(folder);
    },
  },
  lines: {
    seeds: () => ({ 'metrics.jsonl': lines([LINE, { ...LINE, step: 2 }, { ...LINE, step: 3 }]) }),
    read: (path, _bytes, folder) => {
      const { MetricsFile, readMetrics } = dist('run/metrics-file.js');
      readMetrics(path);
      new MetricsFile(path, 2, () => undefined).close();
      const { RunDirectory, recordRollback } = dist('run/index.js');
      put(folder, { 'metrics.jsonl': readFileSync(path) });
      recordRollback(new RunDirectory(folder), ROLLBACK);
    },
  },
  rollbacks: {
    seeds: () => ({ 'rollbacks.json': json([ROLLBACK, { ...ROLLBACK, number: 2, done: true }]) }),
    read: (_, bytes, folder) => {
      putRun(folder, { 'state.json': json({ ...state(), batch: null }) }, true);
      put(folder, { 'rollbacks.json': bytes });
      return readRun(folder);
    },
  },
  lock: {
    refused: ['lock.json'],
    seeds: () => ({ 'lock.json': json({ pid: 1, host: 'h', startTicks: '1', boot: 'b', since: 's' }), own: json({ pid: process.pid, host: require('node:os').hostname(), startTicks: '1', boot: 'b', since: 's' }) }),
    read: (_, bytes, folder) => {
      putRun(folder, {}, true);
      put(folder, { 'lock.json': bytes });
      dist('run/index.js').openRunDirectory(folder).lock.release();
    },
  },
  run: {
    seeds: () => ({ 'config.json': json(CONFIG) }),
    read: (_, bytes, folder) => {
      putRun(folder, {}, true);
      put(folder, { 'config.json': bytes, 'summary.json': bytes });
      return dist('train/opening.js').finishedRun(folder, { settings: {}, parts: {} });
    },
  },
  completions: {
    seeds: async () => ({ 'out.jsonl': lines(COMPLETIONS), 'out.json': json(COMPLETIONS), 'out.parquet': await parquet(STORED), 'out.csv': Buffer.from('completion,answer\n\\boxed{3},3\n') }),
    read: async (path) => {
      const { gradeFile } = dist('eval/index.js');
      const { verifyAnswer } = verifierPackage();
      const verify = async (/** @type {any[]} */ items) => items.map(({ gold, pred }) => verifyAnswer(gold, pred, {}));
      const read = () => gradeFile(path, { grader: { concurrency: 1, verify } });
      await (path.endsWith('.parquet') ? withThread(read) : read());
    },
  },
  table: {
    seeds: async () => ({ 'step.parquet': await parquet(STORED), 'plain.parquet': await parquet(STORED, 'UNCOMPRESSED') }),
    read: (path) => withThread(() => dist('run/completions.js').readCompletions(path)),
  },
  evaluation: {
    seeds: () => ({ files: together(json({ settings: { model: 'tiny', n: 1 }, report: null }), lines([{ benchmark: 'b', prompt_index: 0, sample: 0, problem_id: 'a', gold: '3', level: null, correct: true, status: 'correct', extracted: '3', thinking_tokens: 1, thinking_closed: true, total_tokens: 2, finish: 'stop' }])) }),
    read: async (_, bytes, folder) => {
      putSections({ more: 'e.json e.jsonl' }, bytes, join(folder, 'eval'));
      const { EvaluationFolder } = dist('run/index.js');
      const { storedRow } = dist('eval/index.js');
      const evaluations = new EvaluationFolder(join(folder, 'eval'));
      try {
        const file = evaluations.open('e', { model: 'tiny', n: 1 });
        try {
          for await (const { values, where } of file.rows()) storedRow(values, where);
        } finally {
          file[Symbol.dispose]();
        }
      } finally {
        evaluations[Symbol.dispose]();
      }
    },
  },
  model: {
    seeds: () => modelSeeds().model,
    read: async (_, bytes, folder) => {
      const names = { 2: 'config.json model.safetensors', 4: 'config.json model.safetensors.index.json a.safetensors b.safetensors', more: 'config.json' };
      putSections(names, bytes, join(folder, 'model'));
      const { engine } = await native();
      await (await engine.loadModel(join(folder, 'model'))).dispose();
    },
  },
  gguf: {
    refused: ['other.gguf'],
    seeds: () => {
      const gguf = dist('models/gguf.js');
      const { ggufName } = dist('models/gguf-names.js');
      const other = gguf.ggufLayout([['general.alignment', 'u32', 8]], [{ name: 'a', type: 'Q8_0', shape: [2, 32] }]);
      return {
        'wide.gguf': ggufModel(gguf, ggufName, 'F32'),
        'half.gguf': ggufModel(gguf, ggufName, 'BF16'),
        'other.gguf': Buffer.concat([other.header, Buffer.alloc(other.bytes - other.header.length)]),
      };
    },
    read: async (path) => {
      const { engine, folder } = await native();
      await (await engine.loadWeights({ model: folder, weights: path })).dispose();
    },
  },
  adapter: {
    seeds: () => modelSeeds().adapter,
    read: async (_, bytes, folder) => {
      putSections({ more: 'adapter_config.json adapter_model.safetensors' }, bytes, join(folder, 'adapter'));
      const { model } = await native();
      await (await model.loadAdapter(join(folder, 'adapter'))).dispose();
    },
  },
  restore: {
    refused: ['optimizer', 'full', 'full-optimizer'],
    seeds: () => modelSeeds().restore,
    read: async (path) => {
      const { model } = await native();
      const policy = await model.createPolicy({ kind: 'lora', rank: 2, alpha: 4, targetModules: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'], seed: 1n });
      try {
        await policy.restoreOptimizer(path).catch(() => undefined);
        await policy.restore(path);
      } finally {
        await policy.dispose();
      }
    },
  },
}; // prettier-ignore

/** What is fuzzed for how long: the kinds of a target share its time. @type {Record<string, string[]>} */
const TARGETS = {
  config: ['config'],
  hub: ['hub'],
  data: ['data', 'card', 'completions'],
  tokenizer: ['tokenizer', 'template'],
  checkpoints: ['state', 'supervised', 'rollouts', 'tensors', 'sums', 'lines', 'rollbacks', 'lock', 'run', 'table', 'evaluation'],
  models: ['plan', 'spec', 'header', 'index', 'lora', 'model', 'gguf', 'adapter', 'restore'],
  verifier: ['verify'],
}; // prettier-ignore

module.exports = { KINDS, TARGETS };
