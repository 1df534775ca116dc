/** The keys of a GGUF file that describe a model, as llama.cpp's own converter writes them. */
import type { GgufKey } from '../models/gguf';
import type { GgufArchitecture } from '../models/gguf-names';
import type { ModelSpec } from '../models';

/** Weights of two dimensions; vectors are always float32. */
export const GGUF_TYPES = {
  f32: { tensor: 'F32', fileType: 0 },
  f16: { tensor: 'F16', fileType: 1 },
  q8_0: { tensor: 'Q8_0', fileType: 7 },
  bf16: { tensor: 'BF16', fileType: 32 },
} as const;
export type GgufFileType = keyof typeof GGUF_TYPES;

/** `135M`, `1.7B`: two digits at least. */
export function sizeLabel(parameters: number): string {
  const units = [
    [1e12, 'T'],
    [1e9, 'B'],
    [1e6, 'M'],
    [1e3, 'K'],
  ] as const;
  const [unit, letter] = units.find(([size]) => parameters > size) ?? [1e3, 'K'];
  const scaled = parameters / unit;
  const digits = String(Math.round(scaled)).replace(/^0+/, '').length;
  return `${scaled.toFixed(Math.max(0, 2 - digits))}${letter}`;
}

/**
 * llama.cpp multiplies `attn_factor` into what it computes of the factor itself. Its converter writes
 * transformers' `attention_factor`, which replaces that, and under a name that is not read for these architectures.
 */
function ropeKeys(architecture: string, { ropeScaling: scaling }: ModelSpec): GgufKey[] {
  // Llama 3's factors are a tensor.
  if (scaling?.kind !== 'yarn') return [];
  const key = (name: string) => `${architecture}.rope.scaling.${name}`;
  const attention = scaling.attentionFactor / (0.1 * Math.log(scaling.factor) + 1);
  return [
    [key('type'), 'string', 'yarn'],
    [key('factor'), 'f32', scaling.factor],
    [key('original_context_length'), 'u32', scaling.originalPositions],
    ...(attention === 1 ? [] : ([[key('attn_factor'), 'f32', attention]] satisfies GgufKey[])),
  ];
}

/** Qwen2's follow from the sizes. */
function headKeys(architecture: GgufArchitecture, { headDim }: ModelSpec): GgufKey[] {
  if (architecture === 'qwen2') return [];
  return [
    [`${architecture}.attention.key_length`, 'u32', headDim],
    [`${architecture}.attention.value_length`, 'u32', headDim],
  ];
}

export function modelKeys(
  architecture: GgufArchitecture,
  spec: ModelSpec,
  {
    name,
    parameters,
    positions,
    type,
  }: { name: string; parameters: number; positions: number; type: GgufFileType },
): GgufKey[] {
  const key = (rest: string) => `${architecture}.${rest}`;
  return [
    ['general.architecture', 'string', architecture],
    ['general.type', 'string', 'model'],
    ['general.name', 'string', name],
    ['general.size_label', 'string', sizeLabel(parameters)],
    [key('block_count'), 'u32', spec.numLayers],
    [key('context_length'), 'u32', positions],
    [key('embedding_length'), 'u32', spec.hiddenSize],
    [key('feed_forward_length'), 'u32', spec.intermediateSize],
    [key('attention.head_count'), 'u32', spec.numHeads],
    [key('attention.head_count_kv'), 'u32', spec.numKvHeads],
    ...ropeKeys(architecture, spec),
    [key('rope.freq_base'), 'f32', spec.ropeTheta],
    [key('attention.layer_norm_rms_epsilon'), 'f32', spec.rmsNormEps],
    ...headKeys(architecture, spec),
    ['general.file_type', 'u32', GGUF_TYPES[type].fileType],
    ...(architecture === 'llama'
      ? ([
          [key('vocab_size'), 'u32', spec.vocabSize],
          [key('rope.dimension_count'), 'u32', spec.headDim],
        ] satisfies GgufKey[])
      : []),
    ['general.quantization_version', 'u32', 2],
  ];
}

/** What generation_config.json says of sampling, by llama.cpp's names. */
const SAMPLING = [
  ['top_k', 'top_k', 'i32'],
  ['top_p', 'top_p', 'f32'],
  ['min_p', 'min_p', 'f32'],
  ['temperature', 'temp', 'f32'],
  ['repetition_penalty', 'penalty_repeat', 'f32'],
] as const;

export const samplingKeys = (generation: Readonly<Record<string, unknown>>): GgufKey[] =>
  SAMPLING.flatMap(([own, name, type]): GgufKey[] => {
    const value = generation[own];
    return typeof value === 'number' ? [[`general.sampling.${name}`, type, value]] : [];
  });
