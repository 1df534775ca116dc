/**
 * What the families of dense decoders share: the fields of their config.json in Hugging Face's layout, the spec
 * made of them, and the names of tensors. What sets a family apart is in families.ts.
 */
import { z } from 'zod';
import type { NativeRopeScaling } from '../engine/binding';
import { dtypeOf, flag, number, positive, size, text } from './config-file';
import { badFile } from './files';
import { readRope, ropeEntry, unsupportedRope } from './rope';
import type { ModelSpec } from './spec';

/** In the hub's form (rope_theta, torch_dtype) and that of transformers 5. */
export const DECODER_FIELDS = {
  vocab_size: size,
  hidden_size: size,
  intermediate_size: size,
  num_hidden_layers: size,
  num_attention_heads: size,
  num_key_value_heads: size.nullish(),
  head_dim: size.nullish(),
  max_position_embeddings: size.nullish(),
  original_max_position_embeddings: size.nullish(),
  rms_norm_eps: positive.nullish(),
  rope_theta: positive.nullish(),
  rope_scaling: ropeEntry,
  rope_parameters: ropeEntry,
  partial_rotary_factor: number.nullish(),
  tie_word_embeddings: flag,
  hidden_act: text('the name of an activation').nullish(),
  dtype: text('the name of a type').nullish(),
  torch_dtype: text('the name of a type').nullish(),
  quantization_config: z.unknown().optional(),
};
type DecoderConfig = z.output<z.ZodObject<typeof DECODER_FIELDS>>;

/** What sets a family apart. Defaults are those of its config class in transformers. */
export interface DecoderTraits {
  /** In messages, and in the names of its config.json. */
  name: string;
  qkvBias: boolean;
  qkNorm: boolean;
  /** Without `head_dim`; null: hidden_size / num_attention_heads. */
  headDim: number | null;
  /** Without `max_position_embeddings`. */
  maxPositions: number;
  /** Without `rope_theta`; null: it must be named. */
  ropeTheta: number | null;
}

/** The first feature that no family of the engine has, with its field, or null. */
function unsupported(config: DecoderConfig): string | null {
  const { hidden_act: activation, quantization_config: quantization, partial_rotary_factor: part } = config;
  const scaling = unsupportedRope(config);
  if (scaling !== null) return scaling;
  if ((part ?? 1) !== 1) return 'partly rotated heads (partial_rotary_factor)';
  if (quantization !== undefined && quantization !== null) return 'quantization (quantization_config)';
  if ((activation || 'silu') !== 'silu') return `the activation ${activation} (hidden_act)`;
  return null;
}

function headDimOf(config: DecoderConfig, traits: DecoderTraits, path: string): number {
  const named = config.head_dim ?? traits.headDim;
  if (named !== null) return named;
  const { hidden_size: hidden, num_attention_heads: heads } = config;
  if (hidden % heads === 0) return hidden / heads;
  throw badFile(
    `${path} lacks head_dim, and num_attention_heads ${heads} does not divide hidden_size ${hidden}`,
  );
}

/** YaRN is for contexts up to its factor times the original one, which config.json need not repeat. */
function positionsWith(scaling: NativeRopeScaling | null, maxPositions: number): number {
  if (scaling?.kind !== 'yarn') return maxPositions;
  return Math.max(maxPositions, Math.floor(scaling.factor * scaling.originalPositions));
}

/**
 * @param own the first unsupported feature of the family's own fields, or null
 * @throws BAD_FILE for what is missing, or what the engine does not compute
 */
export function decoderSpec(
  config: DecoderConfig,
  traits: DecoderTraits,
  own: string | null,
  path: string,
): ModelSpec {
  const problem = unsupported(config) ?? own;
  if (problem !== null) {
    throw badFile(
      `${path} asks for ${problem.slice(0, 200)}, which this engine does not support for ${traits.name}`,
    );
  }
  const maxPositions = config.max_position_embeddings ?? traits.maxPositions;
  const rope = readRope(config, maxPositions, path);
  const ropeTheta = rope.theta ?? traits.ropeTheta;
  if (ropeTheta === null) throw badFile(`${path} lacks rope_theta (or rope_parameters.rope_theta)`);
  return {
    vocabSize: config.vocab_size,
    hiddenSize: config.hidden_size,
    intermediateSize: config.intermediate_size,
    numLayers: config.num_hidden_layers,
    numHeads: config.num_attention_heads,
    // See docs/decisions/0132-one-reader-of-model-files.md.
    numKvHeads: config.num_key_value_heads ?? config.num_attention_heads,
    headDim: headDimOf(config, traits, path),
    maxPositions: positionsWith(rope.scaling, maxPositions),
    rmsNormEps: config.rms_norm_eps ?? 1e-6,
    ropeTheta,
    ropeScaling: rope.scaling,
    tieWordEmbeddings: config.tie_word_embeddings === true,
    qkvBias: traits.qkvBias,
    qkNorm: traits.qkNorm,
    dtype: dtypeOf(config, path),
  };
}

/** The engine uses the names of transformers. Some checkpoints contain rotary frequencies. */
export const decoderTensorName = (stored: string): string | null =>
  stored.endsWith('.rotary_emb.inv_freq') ? null : stored;
