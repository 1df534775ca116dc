/** Llama 3, DeepSeek-R1-Distill-Llama, SmolLM2: neither biases nor norms of queries and keys. */
import { z } from 'zod';
import { flag, parseFields } from './config-file';
import { DECODER_FIELDS, decoderSpec, decoderTensorName, type DecoderTraits } from './decoder';
import type { ModelFamily } from './spec';

const CONFIG = z.object({ ...DECODER_FIELDS, attention_bias: flag, mlp_bias: flag });

const TRAITS: DecoderTraits = {
  name: 'Llama',
  qkvBias: false,
  qkNorm: false,
  headDim: null,
  maxPositions: 2048,
  ropeTheta: 10_000,
};

/** Llama's `attention_bias` also gives o_proj a bias, which the engine does not compute. */
function unsupported(config: z.output<typeof CONFIG>): string | null {
  if (config.attention_bias === true) return 'attention bias (attention_bias)';
  return config.mlp_bias === true ? 'biases of the MLP (mlp_bias)' : null;
}

export const llama: ModelFamily = {
  architecture: 'LlamaForCausalLM',
  modelType: 'llama',
  readSpec(value, path) {
    const config = parseFields(CONFIG, value, path);
    return decoderSpec(config, TRAITS, unsupported(config), path);
  },
  tensorName: decoderTensorName,
};
