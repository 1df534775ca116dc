/** Dense Qwen3: queries and keys are normed, no projection has a bias. */
import { z } from 'zod';
import { flag, parseFields } from './config-file';
import {
  DECODER_FIELDS,
  decoderSpec,
  decoderTensorName,
  SLIDING_FIELDS,
  slidingWindows,
  type DecoderTraits,
} from './decoder';
import type { ModelFamily } from './spec';

const CONFIG = z.object({ ...DECODER_FIELDS, ...SLIDING_FIELDS, attention_bias: flag });

const TRAITS: DecoderTraits = {
  name: 'Qwen3',
  qkvBias: false,
  qkNorm: true,
  headDim: 128,
  maxPositions: 32_768,
  ropeTheta: null,
};

function unsupported(config: z.output<typeof CONFIG>): string | null {
  return (
    slidingWindows(config) ?? (config.attention_bias === true ? 'attention bias (attention_bias)' : null)
  );
}

export const qwen3: ModelFamily = {
  architecture: 'Qwen3ForCausalLM',
  modelType: 'qwen3',
  readSpec(value, path) {
    const config = parseFields(CONFIG, value, path);
    return decoderSpec(config, TRAITS, unsupported(config), path);
  },
  tensorName: decoderTensorName,
};
