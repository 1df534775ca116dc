/** Dense Qwen2, Qwen2.5 and DeepSeek-R1-Distill-Qwen: a bias on q, k and v, and no norm of queries and keys. */
import { z } from 'zod';
import { parseFields } from './config-file';
import {
  DECODER_FIELDS,
  decoderSpec,
  decoderTensorName,
  SLIDING_FIELDS,
  slidingWindows,
  type DecoderTraits,
} from './decoder';
import type { ModelFamily } from './spec';

const CONFIG = z.object({ ...DECODER_FIELDS, ...SLIDING_FIELDS });

const TRAITS: DecoderTraits = {
  name: 'Qwen2',
  qkvBias: true,
  qkNorm: false,
  headDim: null,
  maxPositions: 32_768,
  ropeTheta: null,
};

export const qwen2: ModelFamily = {
  architecture: 'Qwen2ForCausalLM',
  modelType: 'qwen2',
  readSpec(value, path) {
    const config = parseFields(CONFIG, value, path);
    return decoderSpec(config, TRAITS, slidingWindows(config), path);
  },
  tensorName: decoderTensorName,
};
