/**
 * The model families whose config.json can be read. A built-in one is an entry of the table below: its traits, the
 * fields of its own, and which of these ask for something that the engine does not compute.
 */
import { z } from 'zod';
import { checkName, needObject, needString } from '../base/border';
import { badUsage } from '../base/errors';
import { flag, parseFields } from './config-file';
import { DECODER_FIELDS, decoderSpec, decoderTensorName, type DecoderTraits } from './decoder';
import type { ModelFamily } from './spec';

const COMMON = z.object(DECODER_FIELDS);

/** @param unsupported the first feature that fields of its own ask for and the engine does not have, or null */
function family<T extends z.ZodRawShape>(
  traits: DecoderTraits,
  fields: T,
  unsupported: (own: z.output<z.ZodObject<T>>) => string | null,
): ModelFamily {
  const ownFields = z.object(fields);
  return {
    architecture: `${traits.name}ForCausalLM`,
    modelType: traits.name.toLowerCase(),
    readSpec(value, path) {
      const config = parseFields(COMMON, value, path);
      const own = parseFields(ownFields, value, path);
      return decoderSpec(config, traits, unsupported(own), path);
    },
    tensorName: decoderTensorName,
  };
}

const QWEN_FIELDS = { use_sliding_window: flag, layer_types: z.array(z.string()).nullish() };

/** The field by which one of Qwen's configs asks for a window, or null. */
function slidingWindows(own: z.output<z.ZodObject<typeof QWEN_FIELDS>>): string | null {
  if (own.use_sliding_window === true) return 'sliding windows (use_sliding_window)';
  const slides = own.layer_types?.some((type) => type !== 'full_attention') === true;
  return slides ? 'sliding windows (layer_types)' : null;
}

const biased = (bias: boolean | null | undefined): string | null =>
  bias === true ? 'attention bias (attention_bias)' : null;

const BUILT_IN: readonly ModelFamily[] = [
  family(
    { name: 'Qwen3', qkvBias: false, qkNorm: true, headDim: 128, maxPositions: 32_768, ropeTheta: null },
    { ...QWEN_FIELDS, attention_bias: flag },
    (own) => slidingWindows(own) ?? biased(own.attention_bias),
  ),
  // Also Qwen2.5 and DeepSeek-R1-Distill-Qwen.
  family(
    { name: 'Qwen2', qkvBias: true, qkNorm: false, headDim: null, maxPositions: 32_768, ropeTheta: null },
    QWEN_FIELDS,
    slidingWindows,
  ),
  // Also DeepSeek-R1-Distill-Llama and SmolLM2. `attention_bias` would give o_proj a bias, too.
  family(
    { name: 'Llama', qkvBias: false, qkNorm: false, headDim: null, maxPositions: 2048, ropeTheta: 10_000 },
    { attention_bias: flag, mlp_bias: flag },
    (own) => biased(own.attention_bias) ?? (own.mlp_bias === true ? 'biases of the MLP (mlp_bias)' : null),
  ),
  // The arithmetic of Llama. Without the key, the class's default is a window of 4,096.
  family(
    {
      name: 'Mistral',
      qkvBias: false,
      qkNorm: false,
      headDim: null,
      maxPositions: 131_072,
      ropeTheta: 10_000,
    },
    { sliding_window: z.unknown().optional() },
    ({ sliding_window: window }) => {
      if (window === null) return null;
      return window === undefined
        ? 'a sliding window of 4096 (the default without sliding_window: null)'
        : 'a sliding window (sliding_window)';
    },
  ),
];
const registry = new Map(BUILT_IN.map((family) => [family.architecture, family]));

/**
 * Adds a family with the same arithmetic but other names: its config.json is mapped to a `ModelSpec`, its
 * tensor names to the engine's (those of the built-in families in transformers). A second call with the same
 * architecture replaces the first.
 * @throws BAD_CONFIG for the names of a built-in family
 */
export function registerModelFamily(family: ModelFamily): void {
  needObject('the model family', family);
  checkName('model family', family.architecture);
  needString('modelType', family.modelType);
  const { architecture, modelType } = family;
  if (BUILT_IN.some((own) => own.architecture === architecture || own.modelType === modelType)) {
    throw badUsage(`The model family ${architecture} (${modelType}) is built in; choose another name.`);
  }
  registry.set(architecture, family);
}

export const modelFamilies = (): ModelFamily[] => [...registry.values()];
