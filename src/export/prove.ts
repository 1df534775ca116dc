/** What every export goes through: the run is asked, the files are written, and what was written is asked the same. */
import type { Dtype, ExportingEngine } from '../engine/types';
import { sum } from '../base/statistics';
import { openWeights } from '../models';
import { loadTrained } from '../run';
import { loadTokenizer } from '../tokenizer';
import { type Answers, askRun, type Asked, compare, type Exported, type Proof } from './proof';
import { proofPrompts } from './prompts';
import type { ExportSource } from './source';

/** Prompts that the run and the export are asked. */
const PROMPTS = 32;

export type Phase = 'asking the run' | 'writing' | 'asking the export';

export interface ProvingOptions {
  signal?: AbortSignal;
  onPhase?: (phase: Phase) => void;
}

export interface Proved {
  /** The type that both were computed in. */
  comparedIn: Dtype;
  proof: Proof;
}

/** fp32 where a wider copy fits, so that only the rounding of the weights differs; otherwise the model's own type. */
async function comparedIn(engine: ExportingEngine, { weights }: ExportSource): Promise<Dtype> {
  await using files = await openWeights(weights);
  const sizes = files.weights.tensors.map(({ shape }) => shape.reduce((product, size) => product * size, 1));
  // A fifth byte for decoding.
  return 5 * sum(sizes) > engine.deviceInfo.freeBytes ? files.spec.dtype : 'float32';
}

async function answersOfRun(
  engine: ExportingEngine,
  source: ExportSource,
  dtype: Dtype,
  signal?: AbortSignal,
): Promise<{ asked: Asked; run: Answers }> {
  const tokenizer = await loadTokenizer(source.model);
  await using model = await engine.loadModel(source.model, { dtype, signal });
  await using policy = await loadTrained(model, source.trained);
  const limits = { count: PROMPTS, maxTokens: model.info.maxPositions - 1 };
  const promptIds = await proofPrompts(source.run, tokenizer, limits);
  const asked = { promptIds, stopIds: Int32Array.from(tokenizer.eosIds) };
  return { asked, run: await askRun(asked, model, policy, { signal }) };
}

/**
 * @param write writes the files, and resolves to what else is to be told of them
 * @param load loads what was written, to compute in that type
 */
export async function proved<Written extends object>(
  engine: ExportingEngine,
  source: ExportSource,
  write: () => Promise<Written>,
  load: (dtype: Dtype, written: Written) => Promise<Exported>,
  { signal, onPhase }: ProvingOptions,
): Promise<Written & Proved> {
  onPhase?.('asking the run');
  const dtype = await comparedIn(engine, source);
  const { asked, run } = await answersOfRun(engine, source, dtype, signal);
  onPhase?.('writing');
  const written = await write();
  onPhase?.('asking the export');
  const exported = await load(dtype, written);
  await using _model = exported.model;
  return { ...written, comparedIn: dtype, proof: await compare(asked, run, exported, { signal }) };
}
