/**
 * Whole files as starting points for mutations, as small as each format allows. Tensor values are arbitrary.
 */
'use strict';

const { readFileSync } = require('node:fs');
const { join } = require('node:path');

/** Separates the files of one input. */
const SEPARATOR = '\n====\n';

/** A file of the embedded model. @param {string} name */
const tiny = (name) => readFileSync(join(__dirname, '..', '..', 'assets', 'tiny', name));

/** Several files as one input. @param {(string | Buffer)[]} files */
const together = (...files) =>
  Buffer.concat(files.flatMap((file, i) => [...(i > 0 ? [Buffer.from(SEPARATOR)] : []), Buffer.from(file)]));

/** The parts of an input made of several files. @param {Buffer} bytes @returns {Buffer[]} */
const parts = (bytes) =>
  bytes
    .toString('latin1')
    .split(SEPARATOR)
    .map((part) => Buffer.from(part, 'latin1'));

const BYTES = { F64: 8, F32: 4, BF16: 2, F16: 2, I64: 8, I32: 4, U8: 1 };

/**
 * @param {[name: string, dtype: keyof typeof BYTES, shape: number[]][]} tensors
 * @returns {Buffer} a safetensors file
 */
function safetensors(tensors) {
  /** @type {Record<string, unknown>} */
  const header = { __metadata__: { format: 'pt' } };
  let offset = 0;
  for (const [name, dtype, shape] of tensors) {
    const end = offset + shape.reduce((all, n) => all * n, BYTES[dtype]);
    header[name] = { dtype, shape, data_offsets: [offset, end] };
    offset = end;
  }
  const json = JSON.stringify(header);
  const text = Buffer.from(json.padEnd(Math.ceil(json.length / 8) * 8));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text, Buffer.alloc(offset, 0x11)]);
}

/** Shape of the model for the adapters (the same as in native/fuzz/tables.cpp); `layers` may differ. */
const modelConfig = (layers = 2, tied = true) => ({
  architectures: ['Qwen3ForCausalLM'],
  model_type: 'qwen3',
  vocab_size: 8,
  hidden_size: 4,
  intermediate_size: 6,
  num_hidden_layers: layers,
  num_attention_heads: 2,
  num_key_value_heads: 1,
  head_dim: 2,
  max_position_embeddings: 16,
  rms_norm_eps: 1e-6,
  rope_theta: 10000,
  tie_word_embeddings: tied,
  torch_dtype: 'float32',
});

/** @param {keyof typeof BYTES} dtype @returns {[string, keyof typeof BYTES, number[]][]} */
function modelTensors(layers = 2, tied = true, dtype = 'F32') {
  /** @type {[string, number[]][]} */
  const tensors = [['model.embed_tokens', [8, 4]]];
  for (let layer = 0; layer < layers; layer++) {
    const at = `model.layers.${layer}.`;
    tensors.push(
      [`${at}self_attn.q_proj`, [4, 4]], [`${at}self_attn.k_proj`, [2, 4]], [`${at}self_attn.v_proj`, [2, 4]],
      [`${at}self_attn.o_proj`, [4, 4]], [`${at}self_attn.q_norm`, [2]], [`${at}self_attn.k_norm`, [2]],
      [`${at}mlp.gate_proj`, [6, 4]], [`${at}mlp.up_proj`, [6, 4]], [`${at}mlp.down_proj`, [4, 6]],
      [`${at}input_layernorm`, [4]], [`${at}post_attention_layernorm`, [4]],
    ); // prettier-ignore
  }
  tensors.push(['model.norm', [4]]);
  if (!tied) tensors.push(['lm_head', [8, 4]]);
  return tensors.map(([name, shape]) => [`${name}.weight`, dtype, shape]);
}

/**
 * The tensors of a model as a GGUF file. @param {any} gguf the package's writer @param {(name: string) => string} nameOf
 * @param {'F32' | 'BF16' | 'F16'} dtype
 */
function ggufModel(gguf, nameOf, dtype) {
  const tensors = modelTensors().map(([name, , shape]) => ({ name: nameOf(name), type: dtype, shape }));
  const keys = [
    ['general.architecture', 'string', 'qwen3'],
    ['qwen3.block_count', 'u32', 2],
    ['qwen3.rope.freq_base', 'f32', 10_000],
    ['tokenizer.ggml.tokens', 'string[]', ['a', 'b']],
    ['tokenizer.ggml.token_type', 'i32[]', [1, 3]],
    ['tokenizer.ggml.add_bos_token', 'bool', false],
  ];
  const { header, bytes } = gguf.ggufLayout(keys, tensors);
  return Buffer.concat([header, Buffer.alloc(bytes - header.length, 0x11)]);
}

/** [out, in] of the linears that LoRA adapts, by module. */
const LINEARS = {
  'self_attn.q_proj': [4, 4], 'self_attn.k_proj': [2, 4], 'self_attn.v_proj': [2, 4], 'self_attn.o_proj': [4, 4],
  'mlp.gate_proj': [6, 4], 'mlp.up_proj': [6, 4], 'mlp.down_proj': [4, 6],
}; // prettier-ignore

/** @param {string[]} targets @returns {[string, 'F32', number[]][]} */
function adapterTensors(rank = 2, targets = Object.keys(LINEARS)) {
  return [0, 1].flatMap((layer) =>
    Object.entries(LINEARS)
      .filter(([module]) => targets.includes(module))
      .flatMap(([module, [out, into]]) => {
        const name = `base_model.model.model.layers.${layer}.${module}`;
        return /** @type {[string, 'F32', number[]][]} */ ([
          [`${name}.lora_A.weight`, 'F32', [rank, into]],
          [`${name}.lora_B.weight`, 'F32', [out, rank]],
        ]);
      }),
  );
}

const adapterConfig = (rank = 2, targets = Object.keys(LINEARS)) => ({
  peft_type: 'LORA',
  bias: 'none',
  r: rank,
  lora_alpha: 4,
  lora_dropout: 0,
  target_modules: targets.map((module) => module.slice(module.indexOf('.') + 1)),
  modules_to_save: null,
  rank_pattern: {},
  use_dora: false,
});

/** @param {[string, 'F32', number[]][]} tensors @returns {[string, keyof typeof BYTES, number[]][]} */
const optimizerTensors = (tensors) => [
  ['step', 'I64', []],
  ...tensors.flatMap(([name, dtype, shape]) =>
    ['exp_avg', 'exp_avg_sq'].map(
      (of) => /** @type {[string, 'F32', number[]]} */ ([`${of}.${name}`, dtype, shape]),
    ),
  ),
];

/** @param {...(Buffer | object)} files objects are written as JSON */
const joined = (...files) =>
  together(...files.map((file) => (Buffer.isBuffer(file) ? file : JSON.stringify(file))));

function shardedModel() {
  const tensors = modelTensors(1);
  const [a, b] = [tensors.slice(0, 6), tensors.slice(6)];
  const places = [
    ...a.map(([name]) => [name, 'a.safetensors']),
    ...b.map(([name]) => [name, 'b.safetensors']),
  ];
  const index = { metadata: { total_size: 1 }, weight_map: Object.fromEntries(places) };
  return joined(modelConfig(1), index, safetensors(a), safetensors(b));
}

/** Files of models, adapters and policies by kind and name. */
function modelSeeds() {
  const full = /** @type {[string, 'F32', number[]][]} */ (modelTensors());
  const some = ['self_attn.q_proj', 'mlp.down_proj'];
  return {
    header: {
      empty: safetensors([]),
      types: safetensors([['a', 'F64', [2]], ['b', 'F32', [1, 2]], ['c', 'BF16', [2, 0]], ['d', 'F16', []], ['e', 'I64', [1]], ['f', 'I32', [2]], ['g', 'U8', [3]]]),
    },
    model: {
      tied: joined(modelConfig(1), safetensors(modelTensors(1))),
      untied: joined({ ...modelConfig(1, false), torch_dtype: 'bfloat16' }, safetensors(modelTensors(1, false, 'BF16'))),
      sharded: shardedModel(),
    },
    adapter: {
      all: joined({ ...adapterConfig(), target_modules: 'all-linear' }, safetensors(adapterTensors())),
      some: joined(adapterConfig(1, some), safetensors(adapterTensors(1, some))),
    },
    restore: {
      adapter: safetensors(adapterTensors()),
      optimizer: safetensors(optimizerTensors(adapterTensors())),
      full: safetensors(full),
      'full-optimizer': safetensors(optimizerTensors(full)),
    },
  }; // prettier-ignore
}

module.exports = {
  SEPARATOR,
  adapterConfig,
  adapterTensors,
  ggufModel,
  modelConfig,
  modelTensors,
  modelSeeds,
  parts,
  safetensors,
  tiny,
  together,
};
