/** Merged weights and GGUF files of every family's fixtures, read back. */
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { ExportingEngine, Model, PackedSequences } from '../../src/engine/types';
import { createExportingEngine } from '../../src/engine/engine';
import { writeMergedWeights, MERGED_FILE, type StoredType } from '../../src/export/merge';
import { writeGgufModel } from '../../src/export/gguf-file';
import type { GgufFileType } from '../../src/export/gguf-keys';
import type { ExportSource } from '../../src/export/source';
import { RunDirectory } from '../../src/run';
import {
  adapterDirectory,
  FIXTURES,
  maxDifference,
  modelDirectory,
  readJson,
  readSafetensors,
  values,
} from '../helpers/fixtures';

const ADAPTERS = readdirSync(join(FIXTURES, 'adapters')).map((name): [string, string] => [
  name,
  readJson<{ base_model_name_or_path: string }>(`adapters/${name}/adapter_config.json`)
    .base_model_name_or_path,
]);

let directory: string;
let engine: ExportingEngine;
beforeAll(async () => {
  engine = await createExportingEngine({ device: 'cpu', threads: 1 });
});
afterAll(() => engine.dispose());
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'acoer-export-'));
});
afterEach(() => rmSync(directory, { recursive: true }));

function sourceOf(base: string, adapter: string | null): ExportSource {
  const model = modelDirectory(base);
  const folder = adapter === null ? null : adapterDirectory(adapter);
  return {
    run: new RunDirectory(directory),
    modelName: model,
    model,
    trained: folder ?? model,
    adapter: folder,
    step: 0,
    quantization: null,
    weights: { model, weights: null, adapter: folder },
  };
}

/** Eight sequences of twelve tokens, four of each a prompt. */
function sequences(vocabSize: number): PackedSequences {
  const ids = Int32Array.from({ length: 96 }, (_, i) => (7 * i * i + 3 * i + 1) % vocabSize);
  const offsets = Int32Array.from({ length: 9 }, (_, i) => 12 * i);
  return { ids, offsets, promptLengths: new Int32Array(8).fill(4) };
}

async function logprobsOf(model: Model, adapter: string | null): Promise<Float64Array> {
  const policy = adapter === null ? null : await model.loadAdapter(adapterDirectory(adapter));
  return (await model.score(sequences(model.info.vocabSize), { policy })).logprobs;
}

/** Log-probs in fp32 of the model with its adapter, which other tests compare with PEFT's. */
async function reference(base: string, adapter: string): Promise<Float64Array> {
  await using model = await engine.loadModel(modelDirectory(base), { dtype: 'float32' });
  return await logprobsOf(model, adapter);
}

async function merged(base: string, adapter: string | null, type: StoredType) {
  const folder = join(directory, type);
  mkdirSync(folder);
  const matrices = await writeMergedWeights(engine, sourceOf(base, adapter), folder, type);
  return { matrices, path: join(folder, MERGED_FILE) };
}

const load = (base: string, weights: string) =>
  engine.loadWeights({ model: modelDirectory(base), weights }, { dtype: 'float32' });

test.each(ADAPTERS)('%s: merged in float32, the log-probs of model and adapter', async (adapter, base) => {
  const { path, matrices } = await merged(base, adapter, 'float32');
  await using model = await load(base, path);
  expect(maxDifference(await logprobsOf(model, null), await reference(base, adapter))).toBeLessThan(1e-5);
  expect(matrices.length).toBeGreaterThan(0);
  for (const { updateRms, errorRms, unchanged } of matrices) {
    expect(errorRms).toBeLessThan(1e-6 * updateRms);
    expect(unchanged).toBeLessThan(0.01);
  }
});

const rounded = (value: number): number => {
  const [word] = new Uint32Array(new Float32Array([value]).buffer);
  const kept = ((word! + 0x7fff + ((word! >>> 16) & 1)) & 0xffff0000) >>> 0;
  return new Float32Array(new Uint32Array([kept]).buffer)[0]!;
};

test('bfloat16 is float32 rounded once, to the nearest and ties to even', async () => {
  const exact = readSafetensors((await merged('untied-kv1', 'all-r2', 'float32')).path);
  await merged('untied-kv1', 'all-r2', 'bfloat16');
  await using model = await load('untied-kv1', join(directory, 'bfloat16', MERGED_FILE));
  const policy = await model.createPolicy({ kind: 'full' });
  await policy.save(join(directory, 'wide.safetensors'));
  const wide = readSafetensors(join(directory, 'wide.safetensors'));
  for (const [name, { data }] of Object.entries(exact)) {
    expect(maxDifference(values(wide, name), data.map(rounded))).toBe(0);
  }
});

async function gguf(base: string, adapter: string | null, type: GgufFileType) {
  const path = join(directory, `${base}.gguf`);
  const written = await writeGgufModel(engine, sourceOf(base, adapter), path, {
    type,
    name: base,
    about: [],
  });
  return { path, ...written };
}

/** What llama.cpp would compute otherwise. */
const REFUSED = new Map([
  [
    'qwen2-untied',
    'llama.cpp runs a Qwen2 model only if heads x head_dim is hidden_size, but 4 x 16 is not 24; use --merge.',
  ],
  [
    'yarn-untied-sharded',
    "its YaRN has truncate: false, and llama.cpp always rounds the ramp's ends; use --merge.",
  ],
]);
const BASES = readdirSync(join(FIXTURES, 'models')).filter((name) => !REFUSED.has(name));

test.each(BASES)('%s: read back from GGUF in float32, the same bits', async (base) => {
  const { path } = await gguf(base, null, 'f32');
  await using model = await engine.loadModel(modelDirectory(base), { dtype: 'float32' });
  await using back = await load(base, path);
  expect(maxDifference(await logprobsOf(back, null), await logprobsOf(model, null))).toBe(0);
});

test.each([...REFUSED])('%s is refused as GGUF', async (base, message) => {
  await expect(gguf(base, null, 'f32')).rejects.toThrow(message);
});

test.each([
  [{ beta_fast: 16 }, 'beta_fast 16 and beta_slow 1'],
  [{ beta_slow: 2 }, 'beta_fast 32 and beta_slow 2'],
])('YaRN with %j is refused as GGUF', async (beta, message) => {
  const model = join(directory, 'model');
  cpSync(modelDirectory('yarn-tied'), model, { recursive: true });
  const config = JSON.parse(readFileSync(join(model, 'config.json'), 'utf8')) as {
    rope_parameters: Record<string, unknown>;
  };
  Object.assign(config.rope_parameters, beta);
  writeFileSync(join(model, 'config.json'), JSON.stringify(config));
  const source = { ...sourceOf('yarn-tied', null), model, weights: { model, weights: null, adapter: null } };
  const written = writeGgufModel(engine, source, join(directory, 'out.gguf'), {
    type: 'f32',
    name: 'a',
    about: [],
  });
  await expect(written).rejects.toThrow(
    `its YaRN has ${message}, and llama.cpp always takes 32 and 1; use --merge.`,
  );
});
