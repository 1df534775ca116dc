/**
 * Directories of random dense models in the Hub's layout, written by TypeScript: the same seed gives the same
 * bytes.
 */
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const ARCHITECTURES = {
  qwen3: 'Qwen3ForCausalLM',
  qwen2: 'Qwen2ForCausalLM',
  llama: 'LlamaForCausalLM',
  mistral: 'MistralForCausalLM',
};

export interface RandomModelOptions {
  /** `model_type`. Llama's rotary embeddings are scaled. */
  family?: keyof typeof ARCHITECTURES;
  vocabSize?: number;
  hiddenSize?: number;
  intermediateSize?: number;
  numLayers?: number;
  numHeads?: number;
  numKvHeads?: number;
  headDim?: number;
  tieWordEmbeddings?: boolean;
  /** Type of the tensors in the file and of config.json's `torch_dtype`. */
  dtype?: 'float32' | 'bfloat16';
  /** Standard deviation of the matrices; norms are 1 +- 0.1. */
  std?: number;
  seed?: number;
  /** More than 1: that many shards with an index file. */
  shards?: number;
}

interface NamedTensor {
  name: string;
  shape: number[];
  norm: boolean;
}

const DEFAULTS: Required<RandomModelOptions> = {
  family: 'qwen3',
  vocabSize: 64,
  hiddenSize: 32,
  intermediateSize: 48,
  numLayers: 2,
  numHeads: 4,
  numKvHeads: 2,
  headDim: 16,
  tieWordEmbeddings: true,
  dtype: 'float32',
  std: 0.1,
  seed: 1,
  shards: 1,
};

/** Parameters with Hugging Face's names and in its order. */
function tensorsOf(o: Required<RandomModelOptions>): NamedTensor[] {
  const matrix = (name: string, ...shape: number[]): NamedTensor => ({ name, shape, norm: false });
  const norm = (name: string, size: number): NamedTensor => ({ name, shape: [size], norm: true });
  const biases = (at: string): NamedTensor[] =>
    o.family !== 'qwen2'
      ? []
      : [
          matrix(`${at}.q_proj.bias`, o.numHeads * o.headDim),
          matrix(`${at}.k_proj.bias`, o.numKvHeads * o.headDim),
          matrix(`${at}.v_proj.bias`, o.numKvHeads * o.headDim),
        ];
  const headNorms = (at: string): NamedTensor[] =>
    o.family !== 'qwen3'
      ? []
      : [norm(`${at}.q_norm.weight`, o.headDim), norm(`${at}.k_norm.weight`, o.headDim)];
  const tensors = [matrix('model.embed_tokens.weight', o.vocabSize, o.hiddenSize)];
  for (let layer = 0; layer < o.numLayers; layer++) {
    const at = `model.layers.${layer}`;
    tensors.push(
      norm(`${at}.input_layernorm.weight`, o.hiddenSize),
      matrix(`${at}.self_attn.q_proj.weight`, o.numHeads * o.headDim, o.hiddenSize),
      matrix(`${at}.self_attn.k_proj.weight`, o.numKvHeads * o.headDim, o.hiddenSize),
      matrix(`${at}.self_attn.v_proj.weight`, o.numKvHeads * o.headDim, o.hiddenSize),
      matrix(`${at}.self_attn.o_proj.weight`, o.hiddenSize, o.numHeads * o.headDim),
      ...headNorms(`${at}.self_attn`),
      ...biases(`${at}.self_attn`),
      norm(`${at}.post_attention_layernorm.weight`, o.hiddenSize),
      matrix(`${at}.mlp.gate_proj.weight`, o.intermediateSize, o.hiddenSize),
      matrix(`${at}.mlp.up_proj.weight`, o.intermediateSize, o.hiddenSize),
      matrix(`${at}.mlp.down_proj.weight`, o.hiddenSize, o.intermediateSize),
    );
  }
  tensors.push(norm('model.norm.weight', o.hiddenSize));
  if (!o.tieWordEmbeddings) tensors.push(matrix('lm_head.weight', o.vocabSize, o.hiddenSize));
  return tensors;
}

/** With frequencies below, within and above the range in which they are mixed. */
const LLAMA3_SCALING = {
  rope_type: 'llama3',
  factor: 8,
  low_freq_factor: 1,
  high_freq_factor: 4,
  original_max_position_embeddings: 64,
};

function configOf(o: Required<RandomModelOptions>): Record<string, unknown> {
  return {
    architectures: [ARCHITECTURES[o.family]],
    model_type: o.family,
    attention_bias: false,
    attention_dropout: 0,
    head_dim: o.headDim,
    hidden_act: 'silu',
    hidden_size: o.hiddenSize,
    intermediate_size: o.intermediateSize,
    max_position_embeddings: 4096,
    num_attention_heads: o.numHeads,
    num_hidden_layers: o.numLayers,
    num_key_value_heads: o.numKvHeads,
    rms_norm_eps: 1e-6,
    rope_scaling: o.family === 'llama' ? LLAMA3_SCALING : null,
    rope_theta: 1000000,
    sliding_window: null,
    tie_word_embeddings: o.tieWordEmbeddings,
    torch_dtype: o.dtype,
    use_sliding_window: false,
    vocab_size: o.vocabSize,
  };
}

/** Uniform numbers in [-1, 1) by mulberry32. */
function uniform(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2147483648 - 1;
  };
}

function tensorBytes(tensor: NamedTensor, o: Required<RandomModelOptions>, draw: () => number): Buffer {
  const count = tensor.shape.reduce((a, b) => a * b, 1);
  const values = new Float32Array(count);
  const scale = tensor.norm ? 0.1 : o.std * Math.sqrt(3);
  for (let i = 0; i < count; i++) values[i] = draw() * scale + (tensor.norm ? 1 : 0);
  if (o.dtype === 'float32') return Buffer.from(values.buffer);
  const bits = new Uint32Array(values.buffer);
  // Rounded to nearest even, like every bf16 conversion.
  return Buffer.from(Uint16Array.from(bits, (b) => (b + 0x7fff + ((b >>> 16) & 1)) >>> 16).buffer);
}

/** One safetensors file: an 8-byte header length, the JSON header, and the tensors without gaps. */
export function safetensors(
  entries: { name: string; dtype: string; shape: number[]; data: Buffer }[],
): Buffer {
  const header: Record<string, unknown> = { __metadata__: { format: 'pt' } };
  let offset = 0;
  for (const { name, dtype, shape, data } of entries) {
    header[name] = { dtype, shape, data_offsets: [offset, offset + data.length] };
    offset += data.length;
  }
  const json = JSON.stringify(header);
  const text = Buffer.from(json.padEnd(Math.ceil(json.length / 8) * 8));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text, ...entries.map((entry) => entry.data)]);
}

/** Writes config.json and model.safetensors (or shards and their index) into `directory`. */
export function writeRandomModel(directory: string, options: RandomModelOptions = {}): void {
  const o = { ...DEFAULTS, ...options };
  const draw = uniform(o.seed);
  const entries = tensorsOf(o).map((tensor) => ({
    name: tensor.name,
    dtype: o.dtype === 'float32' ? 'F32' : 'BF16',
    shape: tensor.shape,
    data: tensorBytes(tensor, o, draw),
  }));
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, 'config.json'), JSON.stringify(configOf(o), null, 2));
  if (o.shards === 1) {
    writeFileSync(join(directory, 'model.safetensors'), safetensors(entries));
    return;
  }
  const weightMap: Record<string, string> = {};
  const perShard = Math.ceil(entries.length / o.shards);
  const name = (k: number): string =>
    `model-${String(k + 1).padStart(5, '0')}-of-${String(o.shards).padStart(5, '0')}.safetensors`;
  for (let k = 0; k < o.shards; k++) {
    const part = entries.slice(k * perShard, (k + 1) * perShard);
    for (const entry of part) weightMap[entry.name] = name(k);
    writeFileSync(join(directory, name(k)), safetensors(part));
  }
  const totalSize = entries.reduce((sum, entry) => sum + entry.data.length, 0);
  const index = { metadata: { total_size: totalSize }, weight_map: weightMap };
  writeFileSync(join(directory, 'model.safetensors.index.json'), JSON.stringify(index, null, 2));
}

/** A random model in a new temporary directory. */
export function randomModel(options: RandomModelOptions = {}): string {
  const directory = mkdtempSync(join(tmpdir(), 'acoer-model-'));
  writeRandomModel(directory, options);
  return directory;
}
