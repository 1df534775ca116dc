/** Dense Qwen3: config.json as on the hub and as written by transformers 5. */
import { z } from 'zod';
import { DECODER_FIELDS, dtypeOf, flag, parseFields, ropeScaling } from './config-file';
import { badFile } from './files';
import type { ModelFamily, ModelSpec } from './spec';

const CONFIG = z.object({
  ...DECODER_FIELDS,
  attention_bias: flag,
  use_sliding_window: flag,
  layer_types: z.array(z.string()).nullish(),
});
type Qwen3Config = z.output<typeof CONFIG>;

/** The first unsupported feature with its field name, or null. */
function unsupported(config: Qwen3Config): string | null {
  const { hidden_act: activation, layer_types: layers, quantization_config: quantization } = config;
  const scaling =
    ropeScaling('rope_scaling', config.rope_scaling) ??
    ropeScaling('rope_parameters', config.rope_parameters);
  if (scaling !== null) return scaling;
  if (config.use_sliding_window === true) return 'sliding windows (use_sliding_window)';
  if (layers?.some((type) => type !== 'full_attention')) return 'sliding windows (layer_types)';
  if (config.attention_bias === true) return 'attention bias (attention_bias)';
  if (quantization !== undefined && quantization !== null) return 'quantization (quantization_config)';
  if ((activation || 'silu') !== 'silu') return `the activation ${activation} (hidden_act)`;
  return null;
}

function readSpec(value: unknown, path: string): ModelSpec {
  const config = parseFields(CONFIG, value, path);
  const problem = unsupported(config);
  if (problem !== null) {
    throw badFile(`${path} asks for ${problem.slice(0, 200)}, which this engine does not support for Qwen3`);
  }
  const ropeTheta = config.rope_parameters?.rope_theta ?? config.rope_theta;
  if (ropeTheta === undefined || ropeTheta === null) {
    throw badFile(`${path} lacks rope_theta (or rope_parameters.rope_theta)`);
  }
  return {
    vocabSize: config.vocab_size,
    hiddenSize: config.hidden_size,
    intermediateSize: config.intermediate_size,
    numLayers: config.num_hidden_layers,
    numHeads: config.num_attention_heads,
    // The defaults of the Qwen3Config class; see docs/decisions/0132-one-reader-of-model-files.md.
    numKvHeads: config.num_key_value_heads ?? config.num_attention_heads,
    headDim: config.head_dim ?? 128,
    maxPositions: config.max_position_embeddings ?? 32_768,
    rmsNormEps: config.rms_norm_eps ?? 1e-6,
    ropeTheta,
    tieWordEmbeddings: config.tie_word_embeddings === true,
    dtype: dtypeOf(config, path),
  };
}

/**
 * The engine uses Qwen3's own names. Some checkpoints contain rotary frequencies, or a copy of a tied head.
 */
function tensorName(stored: string, { tieWordEmbeddings }: ModelSpec): string | null {
  if (stored.endsWith('.rotary_emb.inv_freq')) return null;
  return tieWordEmbeddings && stored === 'lm_head.weight' ? null : stored;
}

export const qwen3: ModelFamily = {
  architecture: 'Qwen3ForCausalLM',
  modelType: 'qwen3',
  readSpec,
  tensorName,
};
