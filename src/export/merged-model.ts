/** `acoer export --merge`: writes a run as one model, loads what was written, and compares it with the run. */
import { existsSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { badUsage } from '../base/errors';
import { sum } from '../base/statistics';
import type { Dtype, ExportingEngine, MergedMatrix } from '../engine/types';
import { openWeights } from '../models';
import { copyTokenizer, jsonText, loadTrained, modelConfig, writeDirectoryAtomic } from '../run';
import { loadTokenizer } from '../tokenizer';
import { mergedCard } from './card';
import { type StoredType, writeMergedWeights } from './merge';
import { type Answers, askRun, type Asked, compare, type Proof } from './proof';
import { proofPrompts } from './prompts';
import type { ExportSource } from './source';

/** Prompts that the run and the export are asked. */
const PROMPTS = 32;

export interface MergeOptions {
  /** A folder that is not there yet. */
  out: string;
  type: StoredType;
  signal?: AbortSignal;
  onPhase?: (phase: 'asking the run' | 'writing' | 'asking the export') => void;
}

export interface MergeReport {
  out: string;
  type: StoredType;
  step: number;
  /** The type that both were computed in for the comparison. */
  comparedIn: Dtype;
  proof: Proof;
  /** Empty if all weights were trained. */
  matrices: MergedMatrix[];
}

/** fp32 where a wider copy fits, so that only the rounding of the weights differs; otherwise the model's own type. */
async function comparedIn(engine: ExportingEngine, { weights }: ExportSource): Promise<Dtype> {
  await using files = await openWeights(weights);
  const sizes = files.weights.tensors.map(({ shape }) => shape.reduce((product, size) => product * size, 1));
  // A fifth byte for decoding.
  return 5 * sum(sizes) > engine.deviceInfo.freeBytes ? files.spec.dtype : 'float32';
}

/** @throws BAD_CONFIG for a folder that exists, and what reading, computing and writing throw; nothing is left then */
export async function exportMerged(
  engine: ExportingEngine,
  source: ExportSource,
  { out, type, signal, onPhase }: MergeOptions,
): Promise<MergeReport> {
  const path = resolve(out);
  if (existsSync(path)) throw badUsage(`${out} exists; name a new folder, or remove it.`);
  const { asked, run, dtype } = await answersOfRun(engine, source, { signal, onPhase });
  let report: MergeReport | undefined;
  await writeDirectoryAtomic(path, async (directory) => {
    onPhase?.('writing');
    const matrices = await writeMergedWeights(engine, source, directory, type, signal);
    writeFileSync(join(directory, 'config.json'), modelConfig(source.model, type));
    copyTokenizer(source.model, directory);
    onPhase?.('asking the export');
    await using model = await engine.loadModel(directory, { dtype, signal });
    const proof = await compare(asked, run, model, { signal });
    report = { out: path, type, step: source.step, comparedIn: dtype, proof, matrices };
    writeFileSync(join(directory, 'export.json'), jsonText({ ...report, out: undefined }));
    writeFileSync(join(directory, 'README.md'), mergedCard(source, report));
  });
  return report!;
}

async function answersOfRun(
  engine: ExportingEngine,
  source: ExportSource,
  { signal, onPhase }: Pick<MergeOptions, 'signal' | 'onPhase'>,
): Promise<{ asked: Asked; run: Answers; dtype: Dtype }> {
  onPhase?.('asking the run');
  const dtype = await comparedIn(engine, source);
  const tokenizer = await loadTokenizer(source.model);
  await using model = await engine.loadModel(source.model, { dtype, signal });
  await using policy = await loadTrained(model, source.trained);
  const limits = { count: PROMPTS, maxTokens: model.info.maxPositions - 1 };
  const promptIds = await proofPrompts(source.run, tokenizer, limits);
  const asked = { promptIds, stopIds: Int32Array.from(tokenizer.eosIds) };
  return { asked, run: await askRun(asked, model, policy, { signal }), dtype };
}
