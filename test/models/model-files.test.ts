/**
 * Model folders: what transformers reads, what is rejected with the name of the feature, and files that are
 * truncated, foreign or hostile.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { openAdapter, openModelFiles, openTensorFiles, readModelSpec } from '../../src/models';
import { readPlannedModel } from '../../src/plan';
import { longestBusyMs } from '../helpers/engine-calls';
import { writeRandomModel } from '../helpers/random-model';

const root = mkdtempSync(join(tmpdir(), 'acoer-model-files-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const badFile = (what: RegExp) =>
  expect.objectContaining({ code: 'BAD_FILE', message: expect.stringMatching(what) as string }) as Error;

interface Reference {
  cases: { name: string; config: Record<string, unknown>; spec: Record<string, unknown> }[];
}
const { cases } = JSON.parse(
  readFileSync(join(__dirname, '../fixtures/models/configs.json'), 'utf8'),
) as Reference;
const CONFIG = cases[0]!.config;
const QWEN2 = { architectures: ['Qwen2ForCausalLM'], model_type: 'qwen2' };
const LLAMA = { architectures: ['LlamaForCausalLM'], model_type: 'llama' };
const MISTRAL = { architectures: ['MistralForCausalLM'], model_type: 'mistral' };

let folders = 0;
/** A folder with this config.json, or this text in it. */
function folderOf(config: object | string, files: Record<string, string | Buffer> = {}): string {
  const folder = join(root, String(folders++));
  mkdirSync(folder);
  const text = typeof config === 'string' ? config : JSON.stringify(config);
  for (const [name, content] of Object.entries({ 'config.json': text, ...files }))
    writeFileSync(join(folder, name), content);
  return folder;
}

describe('config.json', () => {
  test.each(cases)(
    '$name: as transformers reads it, for the engine and for the plan',
    async ({ config, spec }) => {
      const folder = folderOf(config);
      expect(await readModelSpec(folder)).toEqual(spec);
      expect(await readPlannedModel(folder)).toMatchObject({
        shape: spec,
        storedDtype: spec.dtype,
        maxPositions: spec.maxPositions,
      });
    },
  );

  // Decision 132: transformers uses its class default of 32, which is wrong for any other number of heads.
  test('without num_key_value_heads every head has its own', async () => {
    const { num_key_value_heads: _, ...config } = CONFIG;
    expect(await readModelSpec(folderOf(config))).toMatchObject({ numHeads: 4, numKvHeads: 4 });
  });

  test('float16 is computed in float32', async () => {
    const spec = await readModelSpec(folderOf({ ...CONFIG, torch_dtype: 'float16' }));
    expect(spec.dtype).toBe('float32');
  });

  test.each<[object, RegExp]>([
    [
      { architectures: ['SmolLM3ForCausalLM'], model_type: 'smollm3' },
      /asks for the architecture SmolLM3ForCausalLM, which this engine does not/,
    ],
    [{ architectures: ['LlamaForCausalLM'] }, /asks for the model type qwen3, which this engine does not/],
    [{ model_type: 'qwen3_moe' }, /asks for the model type qwen3_moe/],
    [{ architectures: null, model_type: null }, /names neither architectures nor model_type/],
    [{ rope_scaling: { rope_type: 'longrope' } }, /rope scaling \(rope_scaling.rope_type = "longrope"\)/],
    [{ rope_scaling: { rope_type: 'yarn' } }, /config.json lacks rope_scaling.factor/],
    [{ rope_scaling: { rope_type: 'yarn', factor: 0.5 } }, /rope_scaling.factor must be at least 1, not 0.5/],
    [
      { rope_scaling: { type: 'yarn', factor: 4, finetuned: true } },
      /rope scaling \(rope_scaling.finetuned\)/,
    ],
    [{ rope_scaling: { type: 'yarn', factor: 4, low_freq_factor: 1 } }, /\(rope_scaling.low_freq_factor\)/],
    [{ rope_scaling: { rope_type: 'llama3', factor: 8 } }, /lacks rope_scaling.low_freq_factor/],
    [
      { rope_scaling: { rope_type: 'llama3', factor: 8, low_freq_factor: 4, high_freq_factor: 4 } },
      /rope_scaling.high_freq_factor 4 must be above low_freq_factor 4/,
    ],
    [{ rope_scaling: { mrope_section: [1, 2] } }, /rope scaling \(rope_scaling.mrope_section\)/],
    [{ partial_rotary_factor: 0.5 }, /partly rotated heads \(partial_rotary_factor\)/],
    [{ rope_scaling: { type: 'linear' } }, /rope scaling \(rope_scaling.type = "linear"\)/],
    [{ rope_scaling: { factor: 4 } }, /rope scaling \(rope_scaling.factor\)/],
    [{ rope_parameters: { rope_type: 'linear', rope_theta: 1e4 } }, /rope_parameters.rope_type = "linear"/],
    [{ use_sliding_window: true }, /sliding windows \(use_sliding_window\)/],
    [{ layer_types: ['full_attention', 'sliding_attention'] }, /sliding windows \(layer_types\)/],
    [{ attention_bias: true }, /attention bias/],
    [{ quantization_config: { bits: 4 } }, /quantization/],
    [{ hidden_act: 'gelu' }, /the activation gelu \(hidden_act\)/],
    [{ rope_theta: null }, /config.json lacks rope_theta/],
    [{ vocab_size: undefined }, /config.json lacks vocab_size/],
    [{ hidden_size: -5 }, /hidden_size must be at least 1, not -5/],
    [{ hidden_size: 2.5 }, /hidden_size must be a whole number, not 2.5/],
    [{ intermediate_size: 2 ** 31 + 1 }, /intermediate_size must be at most 2147483648/],
    [{ rms_norm_eps: 0 }, /rms_norm_eps must be above 0, not 0/],
    [{ tie_word_embeddings: 1 }, /tie_word_embeddings must be true or false, not 1/],
    [{ torch_dtype: 'int8' }, /unknown dtype "int8"/],
    [{ num_key_value_heads: 3 }, /num_attention_heads 4, which num_key_value_heads 3 does not divide/],
    [{ head_dim: 33 }, /odd head_dim 33/],
    [{ vocab_size: 2 ** 31, hidden_size: 1024 }, /more than 10\^12 numbers/],
    [{ head_dim: 2 ** 31 - 2, hidden_size: 1024 }, /more than 10\^12 numbers/],
    [{ ...QWEN2, use_sliding_window: true }, /sliding windows \(use_sliding_window\).* for Qwen2/],
    [{ ...QWEN2, layer_types: ['sliding_attention'] }, /sliding windows \(layer_types\)/],
    [{ ...QWEN2, rope_theta: null }, /config.json lacks rope_theta/],
    [{ ...LLAMA, attention_bias: true }, /attention bias \(attention_bias\).* for Llama/],
    [{ ...LLAMA, mlp_bias: true }, /biases of the MLP \(mlp_bias\)/],
    [
      { ...LLAMA, hidden_size: 98, head_dim: undefined },
      /lacks head_dim, and num_attention_heads 4 does not divide/,
    ],
    [{ ...MISTRAL, sliding_window: 4096 }, /a sliding window \(sliding_window\).* for Mistral/],
    [{ ...MISTRAL, sliding_window: undefined }, /a sliding window of 4096 \(the default/],
  ])('%j is refused', async (changes, sentence) => {
    const folder = folderOf({ ...CONFIG, ...changes });
    await expect(readModelSpec(folder)).rejects.toThrow(badFile(sentence));
    await expect(readPlannedModel(folder)).rejects.toThrow(badFile(sentence));
  });

  test.each([
    ['', /is not valid JSON/],
    ['{"a":\n1', /is not valid JSON: [^\n]*$/],
    ['[]', /must hold a JSON object, not \[\]/],
    ['null', /must hold a JSON object, not null/],
    ['['.repeat(100_000), /is not valid JSON/],
    [' '.repeat(2 << 20), /more than the allowed 1048576 bytes/],
  ])('%.20j is refused', async (text, sentence) => {
    await expect(readModelSpec(folderOf(text))).rejects.toThrow(badFile(sentence));
  });
});

/** A safetensors file with this header and `dataBytes` bytes of data. */
function fileOf(header: object | string, dataBytes: number): Buffer {
  const text = Buffer.from(typeof header === 'string' ? header : JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text, Buffer.alloc(dataBytes)]);
}

describe('safetensors headers', () => {
  const path = join(root, 'a.safetensors');
  const entry = (dtype: string, shape: unknown, ...data_offsets: unknown[]) => ({
    dtype,
    shape,
    data_offsets,
  });
  const whole = entry('F32', [2, 3], 0, 24);

  test('the table has every tensor by position, and the files stay open', async () => {
    const header = { b: entry('BF16', [2], 24, 28), a: whole, none: entry('I64', [0, 4], 28, 28), __metadata__: { format: 'pt' } };
    writeFileSync(path, fileOf(header, 28));
    await using files = await openTensorFiles([path], (name) => (name === 'none' ? null : `my ${name}`));
    const start = 8 + JSON.stringify(header).length;
    expect(files.table).toEqual({
      files: [{ descriptor: expect.any(Number) as number, path }],
      tensors: [
        { name: 'my a', file: 0, dtype: 'F32', shape: [2, 3], begin: start, end: start + 24 },
        { name: 'my b', file: 0, dtype: 'BF16', shape: [2], begin: start + 24, end: start + 28 },
      ],
    });
  }); // prettier-ignore

  test.each<[Buffer, RegExp]>([
    [Buffer.from('abc'), /it is too short/],
    [Buffer.concat([Buffer.alloc(8, 0xff), Buffer.from('{}')]), /it is cut off/],
    [fileOf('[1]', 0), /its header is not an object/],
    [fileOf('{nonsense', 0), /its header is not valid JSON/],
    [fileOf({ __metadata__: 1 }, 0), /__metadata__ is not an object/],
    [fileOf({ w: whole }, 23), /cut off/],
    [fileOf({ w: whole }, 25), /too long/],
    [fileOf({ w: entry('F32', [2, 3], 0, 20) }, 20), /tensor w has 20 bytes, but F32 \[2,3\] needs 24/],
    [fileOf({ w: entry('F4', [3], 0, 1) }, 1), /needs 1.5/],
    [fileOf({ w: entry('F99', [2, 3], 0, 24) }, 24), /unknown type "F99"/],
    [fileOf({ w: entry('__proto__', [2, 3], 0, 24) }, 24), /unknown type/],
    [fileOf({ w: entry('F32', [2, -3], 0, 24) }, 24), /a shape that is not a list of sizes/],
    [fileOf({ w: entry('F32', [[2]], 0, 24) }, 24), /a shape that is not a list of sizes/],
    [fileOf({ w: entry('F32', [2, 3], 24, 0) }, 24), /has -24 bytes/],
    [fileOf({ w: entry('F32', [2, 3], -24, 0) }, 24), /impossible data_offsets/],
    [fileOf({ w: entry('F32', [2, 3], 0) }, 24), /impossible data_offsets/],
    [fileOf({ w: entry('F32', [2 ** 53 - 1, 2 ** 53 - 1], 0, 24) }, 24), /needs 3\.2451/],
    [fileOf({ w: whole, v: entry('F32', [6], 12, 36) }, 36), /tensor v starts at byte 12 of the data instead of 24/],
    [fileOf({ w: whole, v: entry('F32', [6], 28, 52) }, 52), /tensor v starts at byte 28 of the data instead of 24/],
    [fileOf({ ['w\0']: whole }, 24), /it names a tensor "w\\u0000"/],
    [fileOf({ ['w'.repeat(501)]: whole }, 24), /it names a tensor "www/],
    [fileOf(' '.repeat(2 << 20), 0), /its header has 2097152 bytes; the limit is 1048576/],
    [fileOf(Object.fromEntries(Array.from({ length: 5_001 }, (_, i) => [`w${i}`, entry('F32', [0], 0, 0)])), 0), /above the limit of 5000/],
  ])('%# is refused', async (bytes, sentence) => {
    writeFileSync(path, bytes);
    await expect(openTensorFiles([path])).rejects.toThrow(badFile(sentence));
    await expect(openTensorFiles([path])).rejects.toThrow(path);
  }); // prettier-ignore

  // The largest header allowed, with the largest number of tensors allowed.
  test('a large header does not block the event loop for 50 ms', async () => {
    const tensors = Array.from({ length: 5_000 }, (_, i) => [
      `base_model.model.model.layers.${i}.self_attn.q_proj.lora_A.weight${'x'.repeat(60)}`,
      entry('F32', [1, 1], 4 * i, 4 * i + 4),
    ]);
    writeFileSync(path, fileOf(Object.fromEntries(tensors) as object, 20_000));
    const read = async () => {
      await using files = await openTensorFiles([path]);
      expect(files.table.tensors).toHaveLength(5_000);
    };
    await read();
    // The garbage of other tests may be collected in any of the reads.
    let shortest = Infinity;
    for (let i = 0; i < 30 && shortest >= 50; i++) shortest = Math.min(shortest, await longestBusyMs(read));
    expect(shortest).toBeLessThan(50);
  });
});

describe('weights', () => {
  const INDEX = 'model.safetensors.index.json';

  test('a single file and shards both give every tensor once', async () => {
    for (const shards of [1, 3]) {
      const folder = join(root, `shards-${shards}`);
      writeRandomModel(folder, { shards });
      await using files = await openModelFiles(folder);
      expect(files.weights.files).toHaveLength(shards);
      expect(new Set(files.weights.tensors.map(({ name }) => name)).size).toBe(24);
    }
  });

  test('redundant tensors are left out', async () => {
    const tensors = {
      'model.layers.0.self_attn.rotary_emb.inv_freq': { dtype: 'F32', shape: [1], data_offsets: [0, 4] },
      'lm_head.weight': { dtype: 'F32', shape: [1], data_offsets: [4, 8] },
      'model.embed_tokens.weight': { dtype: 'F32', shape: [1], data_offsets: [8, 12] },
    };
    for (const [tied, left] of [[true, 1], [false, 2]] as const) {
      const config = { ...CONFIG, tie_word_embeddings: tied };
      await using files = await openModelFiles(folderOf(config, { 'model.safetensors': fileOf(tensors, 12) }));
      expect(files.weights.tensors).toHaveLength(left);
    }
  }); // prettier-ignore

  test.each<[Record<string, string>, RegExp]>([
    [{}, /has neither model.safetensors nor model.safetensors.index.json/],
    [{ [INDEX]: '{}' }, /index.json lacks weight_map/],
    [{ [INDEX]: '{"weight_map":[]}' }, /weight_map must be an object/],
    [{ [INDEX]: '{"weight_map":{}}' }, /has an empty weight_map/],
    [{ [INDEX]: '{"weight_map":{"a":1}}' }, /weight_map.a/],
    [{ [INDEX]: '{"weight_map":{"a":"../b"}}' }, /names "..\/b", which is not a file name/],
    [{ [INDEX]: '{"weight_map":{"a":".."}}' }, /it is a folder/],
    [{ [INDEX]: '{"weight_map":{"a":"b"}}' }, /cannot open .*\/b: no such file/],
  ])('%j is refused', async (files, sentence) => {
    await expect(openModelFiles(folderOf(CONFIG, files))).rejects.toThrow(badFile(sentence));
  });
});

describe('adapter_config.json', () => {
  const ADAPTER = {
    peft_type: 'LORA', r: 16, lora_alpha: 32, bias: 'none', use_dora: false, modules_to_save: null, rank_pattern: {},
    target_modules: ['q_proj', 'mlp.down_proj'],
  }; // prettier-ignore
  /** A matrices of rank 16, or the one given, by the ends of their modules' names. */
  const tensors = (modules: Record<string, number>) =>
    Object.fromEntries(
      Object.entries(modules).map(([name, rank]) => [
        `base_model.model.model.layers.${name}.lora_A.weight`,
        { dtype: 'F32', shape: [rank, 0], data_offsets: [0, 0] },
      ]),
    );
  const USUAL = {
    '0.self_attn.q_proj': 16,
    '0.mlp.down_proj': 16,
    '1.self_attn.q_proj': 16,
    '1.mlp.down_proj': 16,
  };
  /** What a model of two layers has. */
  const open = (changes: object, modules: Record<string, number> = USUAL) =>
    openAdapter(
      folderOf(
        {},
        {
          'adapter_config.json': JSON.stringify({ ...ADAPTER, ...changes }),
          'adapter_model.safetensors': fileOf(tensors(modules), 0),
        },
      ),
      2,
    );

  test.each<[object, Record<string, number>, object]>([
    [{}, USUAL, { rank: 16, alpha: 32, rslora: false, dropout: 0, targetModules: ['q_proj', 'down_proj'] }],
    [{ lora_dropout: 0.5 }, USUAL, { dropout: 0.5 }],
    [{ use_rslora: true, lora_alpha: 3 }, USUAL, { alpha: 3, rslora: true }],
    [{ target_modules: ['v_proj', 'c_attn'], layers_to_transform: 1 }, { '1.self_attn.v_proj': 16 }, { targetModules: ['v_proj'], matrices: [{ layer: 1, module: 'v_proj', rank: 16, alpha: 32 }] }],
    [
      { target_modules: '.*[01].*q_proj', rank_pattern: { '1.self_attn.q_proj': 4 }, alpha_pattern: { '0.self_attn.q_proj': 2 } },
      { '0.self_attn.q_proj': 16, '1.self_attn.q_proj': 4 },
      { rank: 16, matrices: [{ layer: 0, module: 'q_proj', rank: 16, alpha: 2 }, { layer: 1, module: 'q_proj', rank: 4, alpha: 32 }] },
    ],
    // A pattern of Python's alone: what is adapted follows from the tensors.
    [{ target_modules: '(?>.*).*q_proj' }, { '1.self_attn.q_proj': 16 }, { matrices: [{ layer: 1, module: 'q_proj', rank: 16, alpha: 32 }] }],
    [{ rank_pattern: { 'q_proj++': 3 } }, { ...USUAL, '1.self_attn.q_proj': 5 }, { matrices: [{ rank: 16 }, { rank: 16 }, { rank: 5 }, { rank: 16 }] }],
  ])('%j', async (changes, modules, shape) => {
    await using files = await open(changes, modules);
    expect(files.shape).toMatchObject(shape);
  }); // prettier-ignore

  test.each<[object, Record<string, number>, RegExp]>([
    [{}, { ...USUAL, '0.self_attn.q_proj': 4 }, /adapter_model\.safetensors adapts model\.layers\.0\.self_attn\.q_proj with rank 4, but by .*adapter_config\.json it has rank 16/],
    [{ rank_pattern: { down_proj: 2 } }, USUAL, /adapts model\.layers\.0\.mlp\.down_proj with rank 16, but by .* it has rank 2/],
    [{ target_modules: ['q_proj'] }, USUAL, /holds the tensor .*0\.mlp\.down_proj\.lora_A\.weight, but .* does not adapt model\.layers\.0\.mlp\.down_proj in this model/],
    [{ target_modules: ['q_proj', 'k_proj', 'down_proj'] }, USUAL, /lacks the tensor .*0\.self_attn\.k_proj\.lora_A\.weight, although .* adapts/],
    [{ target_modules: 'all-linear' }, USUAL, /lacks the tensor .*0\.self_attn\.k_proj/],
    [{ layers_to_transform: [1] }, USUAL, /does not adapt model\.layers\.0\./],
    [{}, { ...USUAL, '2.self_attn.q_proj': 16 }, /does not adapt model\.layers\.2\.self_attn\.q_proj in this model/],
    [{}, {}, /lacks the tensor/],
  ])('%j beside other tensors is refused', async (changes, modules, sentence) => {
    await expect(open(changes, modules)).rejects.toThrow(badFile(sentence));
  }); // prettier-ignore

  test.each<[object, RegExp]>([
    [{ use_dora: true }, /uses use_dora, which this engine does not support/],
    [{ use_rslora: 'yes' }, /use_rslora must be true or false, not "yes"/],
    [{ modules_to_save: ['lm_head'] }, /modules_to_save/],
    [
      { init_lora_weights: 'pissa_niter_4' },
      /init_lora_weights is "pissa_niter_4", under which PEFT changes the base model/,
    ],
    [{ init_lora_weights: 'olora' }, /init_lora_weights is "olora"/],
    [{ use_bdlora: { target_modules_bd_a: ['q_proj'] } }, /uses use_bdlora/],
    [{ kasa_config: { beta: 1 } }, /uses kasa_config/],
    [{ rank_pattern: { q_proj: 0.5 } }, /rank_pattern\.q_proj must be a whole number/],
    [{ alpha_pattern: { q_proj: '1' } }, /alpha_pattern\.q_proj must be a number/],
    [{ rank_pattern: [] }, /rank_pattern must be an object/],
    [{ layers_to_transform: '1' }, /layers_to_transform must be a layer or a list of layers/],
    [{ bias: 'all' }, /bias must be none, not "all"/],
    [{ target_modules: ['lm_head'] }, /targets lm_head, which this engine does not adapt \(it adapts q_proj/],
    [{ target_modules: ['q_proj', 'embed_tokens'] }, /targets model\.embed_tokens/],
    [{ target_modules: ['mlp.q_proj'] }, /holds the tensor .*q_proj.*, but .* does not adapt/],
    [{ target_modules: null }, /lacks target_modules/],
    [{ peft_type: 'LOHA' }, /peft_type must be LORA, not "LOHA"/],
    [{ r: undefined }, /lacks r$/],
    [{ r: 0 }, /r must be at least 1, not 0/],
    [{ lora_alpha: '32' }, /lora_alpha must be a number, not "32"/],
  ])('%j is refused', async (changes, sentence) => {
    await expect(open(changes)).rejects.toThrow(badFile(sentence));
  });
});
