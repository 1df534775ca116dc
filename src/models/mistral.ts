/** Mistral without a sliding window: the arithmetic of Llama. */
import { z } from 'zod';
import { parseFields } from './config-file';
import { DECODER_FIELDS, decoderSpec, decoderTensorName, type DecoderTraits } from './decoder';
import type { ModelFamily } from './spec';

const CONFIG = z.object({ ...DECODER_FIELDS, sliding_window: z.unknown().optional() });

const TRAITS: DecoderTraits = {
  name: 'Mistral',
  qkvBias: false,
  qkNorm: false,
  headDim: null,
  maxPositions: 131_072,
  ropeTheta: 10_000,
};

/** Without the key, the class's default is a window of 4,096. */
function unsupported({ sliding_window: window }: z.output<typeof CONFIG>): string | null {
  if (window === null) return null;
  return window === undefined
    ? 'a sliding window of 4096 (the default without sliding_window: null)'
    : 'a sliding window (sliding_window)';
}

export const mistral: ModelFamily = {
  architecture: 'MistralForCausalLM',
  modelType: 'mistral',
  readSpec(value, path) {
    const config = parseFields(CONFIG, value, path);
    return decoderSpec(config, TRAITS, unsupported(config), path);
  },
  tensorName: decoderTensorName,
};
