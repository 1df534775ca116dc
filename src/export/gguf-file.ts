/** `acoer export --gguf`: a run as a file of llama.cpp's, the whole model or the LoRA alone. */
import { badInput } from '../base/errors';
import type { ExportingEngine, MergedMatrix, TensorPlace } from '../engine/types';
import { adapterWeights, openWeights, readModelType, type ModelSpec, type WeightFiles } from '../models';
import { type GgufKey, ggufLayout, type GgufTensor, type GgufTensorType } from '../models/gguf';
import { ggufArchitecture, type GgufArchitecture, ggufName, turnedHeads } from '../models/gguf-names';
import { GGUF_TYPES, type GgufFileType, modelKeys } from './gguf-keys';
import { type PeftTargets, peftTargets } from '../run';
import { makeRoom } from './merge';
import type { ExportSource } from './source';

/** A tensor of the file, and the engine's name of what goes there; null: it is computed here. */
interface Planned extends GgufTensor {
  source: string | null;
}

/** A LoRA as llama.cpp reads it: scaled by alpha over each pair's rank. */
export interface LoraFile {
  alpha: number;
  rank: number;
  targets: PeftTargets;
}

export interface WrittenGguf {
  /** null: the whole model. */
  lora: LoraFile | null;
  /** Empty for a LoRA, and if all weights were trained. */
  matrices: MergedMatrix[];
  /** Tensors that could not be of the wanted type, by type. */
  others: GgufTensorType[];
}

const numbersOf = (shape: readonly number[]): number => shape.reduce((product, size) => product * size, 1);

/** @throws BAD_INPUT for what llama.cpp cannot run */
async function architectureOf(model: string, spec: ModelSpec): Promise<GgufArchitecture> {
  const refused = (why: string) => badInput(`${model}: ${why}; use --merge.`);
  const type = await readModelType(model);
  const architecture = ggufArchitecture(type);
  if (architecture === undefined) throw refused(`llama.cpp's name for a ${type} is not known`);
  const { numHeads, headDim, hiddenSize, ropeScaling } = spec;
  if (architecture === 'qwen2' && numHeads * headDim !== hiddenSize) {
    throw refused(
      `llama.cpp runs a Qwen2 model only if heads x head_dim is hidden_size, but ${numHeads} x ${headDim} is not ${hiddenSize}`,
    );
  }
  if (ropeScaling?.kind !== 'yarn') return architecture;
  const { truncate, betaFast, betaSlow } = ropeScaling;
  if (!truncate) throw refused("its YaRN has truncate: false, and llama.cpp always rounds the ramp's ends");
  if (betaFast !== 32 || betaSlow !== 1) {
    throw refused(
      `its YaRN has beta_fast ${betaFast} and beta_slow ${betaSlow}, and llama.cpp always takes 32 and 1`,
    );
  }
  return architecture;
}

/** Vectors, and with them all norms, stay float32; rows that are not of whole blocks become float16. */
function typeOf(shape: readonly number[], wanted: GgufTensorType): GgufTensorType {
  if (shape.length === 1) return 'F32';
  return wanted === 'Q8_0' && shape.at(-1)! % 32 !== 0 ? 'F16' : wanted;
}

/** Factors of the rotary wavelengths, which llama.cpp wants as a tensor: Llama 3's ramp from 1 to `factor`. */
export function ropeFactors({ ropeScaling, ropeTheta, headDim }: ModelSpec): Float32Array | null {
  if (ropeScaling?.kind !== 'llama3') return null;
  const { factor, originalPositions, lowFrequencyFactor: low, highFrequencyFactor: high } = ropeScaling;
  // Each step in float32, as transformers and llama.cpp's converter compute it.
  const f = Math.fround;
  return Float32Array.from({ length: headDim / 2 }, (_, i) => {
    const frequency = f(1 / f(ropeTheta ** f((2 * i) / headDim)));
    const wavelength = f(f(2 * Math.PI) / frequency);
    if (wavelength < originalPositions / high) return 1;
    if (wavelength > originalPositions / low) return factor;
    const kept = f(f(f(originalPositions / wavelength) - low) / (high - low));
    return 1 / f(f(f(1 - kept) / factor) + kept);
  });
}

function modelTensors(files: WeightFiles, architecture: GgufArchitecture, type: GgufFileType): Planned[] {
  const { spec } = files;
  const stored = files.weights.tensors.map(({ name, shape }): Planned => {
    const ggml = ggufName(name);
    if (ggml === null) throw badInput(`The tensor ${name} has no place in a GGUF file.`);
    const heads = turnedHeads(name, architecture, spec);
    return { name: ggml, type: typeOf(shape, GGUF_TYPES[type].tensor), shape, source: name, heads };
  });
  if (ropeFactors(spec) === null) return stored;
  return [{ name: 'rope_freqs.weight', type: 'F32', shape: [spec.headDim / 2], source: null }, ...stored];
}

/** Writes header and tensors. @param factors the content of the first tensor, if it is computed here */
async function write(
  engine: ExportingEngine,
  weights: ExportSource['weights'],
  path: string,
  content: { keys: readonly GgufKey[]; tensors: readonly Planned[]; factors: Float32Array | null },
  signal?: AbortSignal,
): Promise<MergedMatrix[]> {
  const { keys, tensors, factors } = content;
  const { header, places, bytes } = ggufLayout(keys, tensors);
  const first = factors === null ? [] : [new Uint8Array(factors.buffer)];
  await makeRoom(path, Buffer.concat([header, ...first]), bytes);
  const own = places.flatMap((place, i): TensorPlace[] => {
    const { source } = tensors[i]!;
    return source === null ? [] : [{ ...place, name: source }];
  });
  return engine.exportWeights(weights, { path, places: own }, { signal });
}

export interface GgufOptions {
  type: GgufFileType;
  /** `general.name`. */
  name: string;
  /** Keys of its origin and of its tokenizer; without these a file is of no use but to be read back. */
  about: readonly GgufKey[];
  signal?: AbortSignal;
}

/** The model with what was trained, with its tokenizer. @throws BAD_INPUT for a model that llama.cpp does not run so */
export async function writeGgufModel(
  engine: ExportingEngine,
  source: ExportSource,
  path: string,
  { type, name, about, signal }: GgufOptions,
): Promise<WrittenGguf> {
  await using files = await openWeights(source.weights);
  const { spec } = files;
  const architecture = await architectureOf(source.model, spec);
  const tensors = modelTensors(files, architecture, type);
  const parameters = files.weights.tensors.reduce((total, { shape }) => total + numbersOf(shape), 0);
  const keys = [
    ...modelKeys(architecture, spec, { name, parameters, positions: spec.maxPositions, type }),
    ...about,
  ];
  const content = { keys, tensors, factors: ropeFactors(spec) };
  const matrices = await write(engine, source.weights, path, content, signal);
  const wanted = GGUF_TYPES[type].tensor;
  const others = new Set(
    tensors.flatMap((one) => (one.shape.length > 1 && one.type !== wanted ? [one.type] : [])),
  );
  return { lora: null, matrices, others: [...others] };
}

const PAIR = /^base_model\.model\.(.+)\.lora_([AB])\.weight$/;

/** The one alpha of a file: llama.cpp divides it by each pair's rank. @throws BAD_INPUT if no single one says all */
function alphaOf({ adapter }: WeightFiles, trained: string): number {
  const { matrices, rslora } = adapter!.shape;
  const alphas = new Set(matrices.map(({ alpha, rank }) => alpha * (rslora ? Math.sqrt(rank) : 1)));
  if (alphas.size === 1) return [...alphas][0]!;
  throw badInput(
    `${trained}: its linears have different scales (alpha_pattern, or ranks under rsLoRA), which one LoRA file of llama.cpp cannot hold; export the whole model with --gguf.`,
  );
}

/** The adapter alone, in float32: llama.cpp adds it to a GGUF file of the base model. */
export async function writeGgufLora(
  engine: ExportingEngine,
  source: ExportSource,
  path: string,
  signal?: AbortSignal,
): Promise<WrittenGguf> {
  const folder = source.adapter;
  if (folder === null)
    throw badInput(`${source.run.path} trained all weights, so it has no LoRA; export the whole model.`);
  await using files = await openWeights(source.weights);
  const architecture = await architectureOf(source.model, files.spec);
  const tensors = files.adapter!.table.tensors.map(({ name, shape }): Planned => {
    const [, weight, side] = PAIR.exec(name) ?? [];
    const ggml = weight === undefined ? null : ggufName(`${weight}.weight`);
    if (ggml === null) throw badInput(`The tensor ${name} has no place in a GGUF file.`);
    const heads = turnedHeads(name, architecture, files.spec);
    return { name: `${ggml}.lora_${side!.toLowerCase()}`, type: 'F32', shape, source: name, heads };
  });
  const alpha = alphaOf(files, folder);
  const keys: GgufKey[] = [
    ['general.architecture', 'string', architecture],
    ['general.type', 'string', 'adapter'],
    ['adapter.type', 'string', 'lora'],
    ['adapter.lora.alpha', 'f32', alpha],
    ['general.quantization_version', 'u32', 2],
  ];
  const weights = { model: source.model, weights: adapterWeights(folder), adapter: null };
  await write(engine, weights, path, { keys, tensors, factors: null }, signal);
  const { matrices: adapted, rank } = files.adapter!.shape;
  const shape = { loraRank: rank, loraAlpha: alpha, targetModules: [] };
  const targets = peftTargets(shape, adapted.map((matrix) => ({ ...matrix, alpha })), files.spec.numLayers); // prettier-ignore
  return { lora: { alpha, rank, targets }, matrices: [], others: [] };
}
