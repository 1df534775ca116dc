/** Exports of SmolLM2 and of a run of the embedded model in the programs that they are for. */
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { packSequences } from '../../src/base/packing';
import { createExportingEngine } from '../../src/engine/engine';
import type { ExportingEngine, Model, Policy } from '../../src/engine/types';
import { openSource, type ExportSource } from '../../src/export';
import { writeGgufLora, writeGgufModel } from '../../src/export/gguf-file';
import type { GgufFileType } from '../../src/export/gguf-keys';
import { tokenizerKeys } from '../../src/export/gguf-tokenizer';
import { STORED_TYPES, type StoredType } from '../../src/export/merge';
import { loadTokenizer } from '../../src/tokenizer';
import { acoer, ROOT } from '../helpers/cli';
import { askLlama, LLAMA, LLAMA_NEEDED } from '../helpers/llama';
import { needs } from '../helpers/needs';
import { REAL_ADAPTER, realJson, realModel } from '../helpers/real-model';

const VENV = join(ROOT, '.cache', 'real', 'venv');
const PEFT = readdirSync(join(VENV, 'lib')).some((python) =>
  readdirSync(join(VENV, 'lib', python, 'site-packages')).includes('peft'),
);
const TYPES = Object.keys(STORED_TYPES) as StoredType[];
const NEW_TOKENS = 24;
const PROMPTS = realJson<{ prompt: number[] }[]>('greedy.json')
  .map(({ prompt }) => prompt)
  .slice(0, 3);

let folder: string;
let engine: ExportingEngine;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'acoer-real-export-'));
  engine = await createExportingEngine({ device: 'cpu' });
});
afterAll(async () => {
  await engine.dispose();
  rmSync(folder, { recursive: true });
});

interface Answers {
  loaded: { dtype: string; greedy: number[][] }[];
  /** Of our float32 weights from PEFT's, and of PEFT's from the base's. */
  difference: number;
  update: number;
}

function inTransformers(job: Record<string, unknown>): Answers {
  const path = join(folder, 'job.json');
  writeFileSync(path, JSON.stringify(job));
  const script = join(ROOT, 'scripts', 'real', 'check_export.py');
  const python = spawnSync(join(VENV, 'bin', 'python'), [script, path], { encoding: 'utf8' });
  if (python.status !== 0) throw new Error(python.stderr);
  return JSON.parse(python.stdout.trim().split('\n').at(-1)!) as Answers;
}

async function greedyIds(model: Model, policy: Policy | null, prompts: readonly number[][], count: number) {
  const requests = prompts.map((ids) => ({
    ...{ promptIds: Int32Array.from(ids), stopIds: new Int32Array(), seed: 1n, maxNewTokens: count },
    ...{ sampling: { temperature: 0 }, policy },
  }));
  return (await model.generate(requests)).sequences.map(({ ids }) => [...ids]);
}

async function mergedFolders(run: string, name: string, types: readonly StoredType[]): Promise<string[]> {
  const folders: string[] = [];
  for (const type of types) {
    const out = join(folder, `${name}-${type}`);
    const { code, stderr } = await acoer('export', run, '--merge', out, '--dtype', type);
    expect({ code, stderr }).toEqual({ code: 0, stderr: 'asking the run\nwriting\nasking the export\n' });
    folders.push(out);
  }
  return folders;
}

/** A run of SmolLM2 whose training gave the adapter of the other tests. */
function realRun(): string {
  const run = join(folder, 'real');
  mkdirSync(run);
  writeFileSync(join(run, 'config.json'), JSON.stringify({ model: realModel() }));
  cpSync(REAL_ADAPTER, join(run, 'final'), { recursive: true });
  return run;
}

needs('peft in .cache/real/venv (pip install -r scripts/real/requirements.txt)', PEFT).describe(
  "merged folders in transformers, and PEFT's own merging",
  () => {
    test('a run of the embedded model, in every type', async () => {
      const run = join(folder, 'tiny');
      const sizes = ['--max-steps', '20', '--set', 'evalProblems=8', '--set', 'evalSampledProblems=0'];
      expect((await acoer('train', ...sizes, '--out', run)).code).toBe(0);
      const folders = await mergedFolders(run, 'tiny', TYPES);
      const model = (await openSource(run, null)).model;
      const prompts = [3, 9, 17].map((size) => Array.from({ length: size }, (_, i) => (7 * i + size) % 50));
      const adapter = join(run, 'final');
      const said = inTransformers({ folders, prompts, newTokens: 32, model, adapter, merged: folders[0] });
      expect(said.loaded.map(({ dtype }) => dtype)).toEqual(TYPES);
      for (const [i, { greedy }] of said.loaded.entries()) {
        await using own = await engine.loadModel(folders[i]!, { dtype: 'float32' });
        expect(await greedyIds(own, null, prompts, 32)).toEqual(greedy);
      }
      expect(said.update).toBeGreaterThan(1e-3);
      expect(said.difference).toBeLessThan(3e-7);
    });

    test('SmolLM2', async () => {
      const run = realRun();
      const [merged] = await mergedFolders(run, 'merged', ['float32']);
      const job = { prompts: PROMPTS, newTokens: NEW_TOKENS, model: realModel(), adapter: REAL_ADAPTER };
      const said = inTransformers({ ...job, folders: [merged], merged });
      await using model = await engine.loadModel(realModel(), { dtype: 'float32' });
      await using policy = await model.loadAdapter(REAL_ADAPTER);
      expect(said.loaded[0]!.greedy).toEqual(await greedyIds(model, policy, PROMPTS, NEW_TOKENS));
      expect(said.update).toBeGreaterThan(1e-3);
      expect(said.difference).toBeLessThan(3e-7);
    });
  },
);

describe('SmolLM2 with an adapter in llama.cpp', () => {
  const prompts = PROMPTS;
  let source: ExportSource;
  beforeAll(async () => {
    rmSync(join(folder, 'real'), { recursive: true, force: true });
    source = await openSource(realRun(), null);
  });

  async function written(type: GgufFileType): Promise<string> {
    const path = join(folder, `${type}.gguf`);
    if (existsSync(path)) return path;
    const { eosIds, vocabSize } = await loadTokenizer(source.model);
    const about = await tokenizerKeys(source.model, vocabSize, eosIds);
    await writeGgufModel(engine, source, path, { type, name: 'SmolLM2', about });
    return path;
  }

  const greedyJob = (path: string, lora?: string) => ({
    ...{ path, prompts, newTokens: NEW_TOKENS, scored: [], texts: [] },
    ...(lora !== undefined && { lora }),
  });

  /** By how much an engine prefers its own token, in nats, where llama.cpp's answers differ first. */
  async function margins(model: Model, policy: Policy | null, theirs: number[][]): Promise<number[]> {
    const ours = await greedyIds(model, policy, prompts, NEW_TOKENS);
    const rows = ours.flatMap((own, i) => {
      const at = own.findIndex((token, k) => token !== theirs[i]![k]);
      const promptIds = Int32Array.from([...prompts[i]!, ...own.slice(0, at)]);
      const after = (token: number) => ({ promptIds, completionIds: Int32Array.of(token) });
      return at < 0 ? [] : [after(own[at]!), after(theirs[i]![at]!)];
    });
    if (rows.length === 0) return [];
    const { logprobs } = await model.score(packSequences(rows), { policy });
    return Array.from({ length: rows.length / 2 }, (_, i) => logprobs[2 * i]! - logprobs[2 * i + 1]!);
  }

  async function readBackMargins(path: string, theirs: number[][]): Promise<number[]> {
    await using model = await engine.loadWeights(
      { model: source.model, weights: path },
      { dtype: 'float32' },
    );
    return await margins(model, null, theirs);
  }

  const { test: llamaTest } = needs(LLAMA_NEEDED, LLAMA);

  llamaTest("f32 gives the run's tokens, and so does the LoRA over the base's f32", async () => {
    const base: ExportSource = { ...source, adapter: null, weights: { ...source.weights, adapter: null } };
    const [f32, lora, baseFile] = [
      await written('f32'),
      join(folder, 'lora.gguf'),
      join(folder, 'base.gguf'),
    ];
    const { eosIds, vocabSize } = await loadTokenizer(source.model);
    const about = await tokenizerKeys(source.model, vocabSize, eosIds);
    await writeGgufModel(engine, base, baseFile, { type: 'f32', name: 'SmolLM2', about });
    await writeGgufLora(engine, source, lora);
    const [merged, apart] = askLlama([greedyJob(f32), greedyJob(baseFile, lora)]);
    await using model = await engine.loadModel(source.model, { dtype: 'float32' });
    await using policy = await model.loadAdapter(REAL_ADAPTER);
    const wanted = await greedyIds(model, policy, prompts, NEW_TOKENS);
    expect(merged!.greedy).toEqual(wanted);
    expect(apart!.greedy).toEqual(wanted);
  });

  // llama.cpp rounds the activations, too: it decides otherwise where two tokens are about as likely.
  llamaTest('bf16 and q8_0 differ from their weights read back in near ties only', async () => {
    const [bf16, q8] = [await written('bf16'), await written('q8_0')];
    const [half, quantised] = askLlama([greedyJob(bf16), greedyJob(q8)]);
    for (const margin of await readBackMargins(bf16, half!.greedy)) expect(margin).toBeLessThan(0.1);
    for (const margin of await readBackMargins(q8, quantised!.greedy)) expect(margin).toBeLessThan(0.3);
  });

  llamaTest('f16 gives log-probs within 2e-2', async () => {
    const f16 = await written('f16');
    await using model = await engine.loadWeights({ model: source.model, weights: f16 }, { dtype: 'float32' });
    const greedy = await greedyIds(model, null, prompts, NEW_TOKENS);
    const packed = packSequences(
      prompts.map((ids, i) => ({
        promptIds: Int32Array.from(ids),
        completionIds: Int32Array.from(greedy[i]!),
      })),
    );
    const { logprobs } = await model.score(packed);
    const scored = prompts.map((ids, i) => ({ ids: [...ids, ...greedy[i]!], from: ids.length }));
    const [said] = askLlama([{ ...greedyJob(f16), prompts: [], scored }]);
    const differences = said!.logprobs.flat().map((value, i) => Math.abs(value - logprobs[i]!));
    expect(differences).toHaveLength(prompts.length * NEW_TOKENS);
    expect(Math.max(...differences)).toBeLessThan(2e-2);
  });

  llamaTest('texts get the same ids', async () => {
    const { texts } = realJson<{ texts: string[] }>('texts.json');
    const chats = realJson<{ text: string; ids: number[] }[]>('chats.json');
    const tokenizer = await loadTokenizer(source.model);
    const all = [...texts, ...chats.map(({ text }) => text)];
    const [said] = askLlama([{ ...greedyJob(await written('q8_0')), prompts: [], texts: all }]);
    expect(said!.tokens).toEqual(all.map((text) => [...tokenizer.encode(text)]));
  });
});
