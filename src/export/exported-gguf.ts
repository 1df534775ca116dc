/** `acoer export --gguf`: a run as a file that llama.cpp runs, the whole model or its LoRA alone. */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { badUsage } from '../base/errors';
import { makeFolders } from '../base/folders';
import type { Dtype, ExportingEngine } from '../engine/types';
import { adapterWeights, openWeights } from '../models';
import { adapterConfig, jsonText, writeLargeFileAtomic } from '../run';
import { loadTokenizer } from '../tokenizer';
import { frontMatter, runCard } from './card';
import { cardKeys } from './gguf-card';
import { type LoraFile, writeGgufLora, writeGgufModel, type WrittenGguf } from './gguf-file';
import type { GgufFileType } from './gguf-keys';
import { tokenizerKeys } from './gguf-tokenizer';
import { safetensorsLayout, makeRoom } from './merge';
import { proved, type Proved, type ProvingOptions } from './prove';
import type { ExportSource } from './source';

export interface GgufExportOptions extends ProvingOptions {
  /** A file that is not there yet. */
  out: string;
  /** `lora`: the adapter alone, in float32. */
  type: GgufFileType | 'lora';
}

export interface GgufReport extends Proved, WrittenGguf {
  out: string;
  type: GgufFileType | 'lora';
  step: number;
}

/** Reads the LoRA back as an adapter of PEFT's, with the scale that llama.cpp gives it. */
async function readBack(
  engine: ExportingEngine,
  { model }: ExportSource,
  file: string,
  { alpha, rank, targets }: LoraFile,
  signal?: AbortSignal,
): Promise<string> {
  const folder = join(dirname(file), 'adapter');
  mkdirSync(folder);
  const weights = { model, weights: file, adapter: null };
  await using files = await openWeights(weights);
  const plan = safetensorsLayout(files.weights.tensors, 'float32');
  await makeRoom(adapterWeights(folder), plan.header, plan.bytes);
  await engine.exportWeights(weights, { path: adapterWeights(folder), places: plan.places }, { signal });
  const shape = { loraRank: rank, loraAlpha: alpha, useRslora: false, loraDropout: 0, targetModules: [] };
  writeFileSync(join(folder, 'adapter_config.json'), jsonText(adapterConfig(shape, model, targets)));
  return folder;
}

/** @throws BAD_CONFIG for a file that exists, and what reading, computing and writing throw; nothing is left then */
export async function exportGguf(
  engine: ExportingEngine,
  source: ExportSource,
  { out, type, ...options }: GgufExportOptions,
): Promise<GgufReport> {
  const path = resolve(out);
  const { signal } = options;
  if (!path.endsWith('.gguf')) throw badUsage(`${out} must end in .gguf.`);
  if (existsSync(path)) throw badUsage(`${out} exists; name a new file, or remove it.`);
  makeFolders(dirname(path));
  let report: GgufReport | undefined;
  await writeLargeFileAtomic(path, async (file) => {
    const name = basename(path, '.gguf');
    const write = async () => {
      if (type === 'lora') return writeGgufLora(engine, source, file, signal);
      const { vocabSize } = await specOf(source);
      const { eosIds } = await loadTokenizer(source.model);
      const origin = cardKeys(frontMatter(runCard(source)));
      const about = [...origin, ...(await tokenizerKeys(source.model, vocabSize, eosIds))];
      return writeGgufModel(engine, source, file, { type, name, about, signal });
    };
    const load = async (dtype: Dtype, { lora }: WrittenGguf) => {
      if (lora === null) {
        const weights = { model: source.model, weights: file };
        return { model: await engine.loadWeights(weights, { dtype, signal }), policy: null };
      }
      const folder = await readBack(engine, source, file, lora, signal);
      const model = await engine.loadModel(source.model, { dtype, signal });
      return { model, policy: await model.loadAdapter(folder) };
    };
    const facts = await proved(engine, source, write, load, options);
    report = { out: path, type, step: source.step, ...facts };
  });
  return report!;
}

async function specOf({ weights }: ExportSource) {
  await using files = await openWeights(weights);
  return files.spec;
}
