/** What llama.cpp calls the tensors of a decoder, and how it orders the rows of queries and keys. */
import type { ModelSpec } from './spec';

const WHOLE: ReadonlyMap<string, string> = new Map([
  ['model.embed_tokens', 'token_embd'],
  ['model.norm', 'output_norm'],
  ['lm_head', 'output'],
]);
const IN_LAYER: ReadonlyMap<string, string> = new Map([
  ['input_layernorm', 'attn_norm'],
  ['post_attention_layernorm', 'ffn_norm'],
  ['self_attn.q_proj', 'attn_q'],
  ['self_attn.k_proj', 'attn_k'],
  ['self_attn.v_proj', 'attn_v'],
  ['self_attn.o_proj', 'attn_output'],
  ['self_attn.q_norm', 'attn_q_norm'],
  ['self_attn.k_norm', 'attn_k_norm'],
  ['mlp.gate_proj', 'ffn_gate'],
  ['mlp.up_proj', 'ffn_up'],
  ['mlp.down_proj', 'ffn_down'],
]);

const NAME = /^(?:model\.layers\.(\d+)\.)?(.+)\.(weight|bias)$/;

/** `model.layers.3.self_attn.q_proj.weight` -> `blk.3.attn_q.weight`; null for a name that no decoder has. */
export function ggufName(name: string): string | null {
  const [, layer, part, kind] = NAME.exec(name) ?? [];
  const own = part === undefined ? undefined : (layer === undefined ? WHOLE : IN_LAYER).get(part);
  if (own === undefined) return null;
  return layer === undefined ? `${own}.${kind}` : `blk.${layer}.${own}.${kind}`;
}

const reversed = (names: ReadonlyMap<string, string>): ReadonlyMap<string, string> =>
  new Map([...names].map(([own, ggml]) => [ggml, own]));
const WHOLE_BACK = reversed(WHOLE);
const IN_LAYER_BACK = reversed(IN_LAYER);
const GGUF_NAME = /^(?:blk\.(\d+)\.)?(.+)\.(weight|bias)$/;

const LORA_NAME = /^(.+\.weight)\.lora_([ab])$/;

/** The inverse of `ggufName`; for the halves of a LoRA, PEFT's names. */
export function modelTensorName(name: string): string | null {
  const [, weight, side] = LORA_NAME.exec(name) ?? [];
  if (weight !== undefined) {
    const own = modelTensorName(weight)?.replace(/\.weight$/, '');
    return own === undefined ? null : `base_model.model.${own}.lora_${side!.toUpperCase()}.weight`;
  }
  const [, layer, part, kind] = GGUF_NAME.exec(name) ?? [];
  const own = part === undefined ? undefined : (layer === undefined ? WHOLE_BACK : IN_LAYER_BACK).get(part);
  if (own === undefined) return null;
  return layer === undefined ? `${own}.${kind}` : `model.layers.${layer}.${own}.${kind}`;
}

/** Architectures of llama.cpp, by `model_type`. Mistral's and SmolLM2's is Llama's. */
const ARCHITECTURES: ReadonlyMap<string, 'qwen3' | 'qwen2' | 'llama'> = new Map([
  ['qwen3', 'qwen3'],
  ['qwen2', 'qwen2'],
  ['llama', 'llama'],
  ['mistral', 'llama'],
]);
export type GgufArchitecture = 'qwen3' | 'qwen2' | 'llama';

export const ggufArchitecture = (modelType: string): GgufArchitecture | undefined =>
  ARCHITECTURES.get(modelType);

/** Llama's heads are rotated in neighbouring pairs there, in halves here: `TensorPlace.heads` of a tensor. */
export function turnedHeads(
  name: string,
  architecture: GgufArchitecture,
  { numHeads, numKvHeads }: Pick<ModelSpec, 'numHeads' | 'numKvHeads'>,
): number | undefined {
  // A LoRA's A has rank rows.
  if (architecture !== 'llama' || name.includes('.lora_A.')) return undefined;
  if (name.includes('self_attn.q_proj.')) return numHeads;
  return name.includes('self_attn.k_proj.') ? numKvHeads : undefined;
}
