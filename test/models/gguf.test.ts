import { describe, expect, test } from '@jest/globals';
import { AcoerError } from '../../src/base/errors';
import { type GgufKey, ggufLayout, type GgufTensor } from '../../src/models/gguf';
import { ggufName, modelTensorName, turnedHeads } from '../../src/models/gguf-names';
import { MoreNeeded, parseGguf } from '../../src/models/gguf-reader';

const KEYS: GgufKey[] = [
  ['general.architecture', 'string', 'llama'],
  ['llama.block_count', 'u32', 2],
  ['llama.rope.freq_base', 'f32', 10_000],
  ['tokenizer.ggml.add_bos_token', 'bool', false],
  ['tokenizer.ggml.tokens', 'string[]', ['a', 'Ġb', '<|end|>']],
  ['tokenizer.ggml.token_type', 'i32[]', [1, 1, 3]],
];
const TENSORS: GgufTensor[] = [
  { name: 'token_embd.weight', type: 'Q8_0', shape: [3, 32] },
  { name: 'output_norm.weight', type: 'F32', shape: [5] },
  { name: 'blk.0.attn_q.weight', type: 'BF16', shape: [4, 3] },
];

const bad = (what: string) => new AcoerError('BAD_FILE', what);
const { header, places, bytes } = ggufLayout(KEYS, TENSORS);
const file = Buffer.concat([header], bytes);

const parse = (content: Buffer, fileBytes = content.length) => parseGguf(content, fileBytes, bad);

test('what is written is read: keys without arrays, and tensors with their places', () => {
  const { keys, tensors } = parse(file);
  expect([...keys]).toEqual([
    ['general.architecture', 'llama'],
    ['llama.block_count', 2],
    ['llama.rope.freq_base', 10_000],
    ['tokenizer.ggml.add_bos_token', false],
  ]);
  expect(tensors).toEqual(places);
  expect(tensors.map(({ begin }) => begin % 32)).toEqual([0, 0, 0]);
  expect(tensors.map(({ begin, end }) => end - begin)).toEqual([3 * 34, 5 * 4, 12 * 2]);
});

test('a header that is longer than what was read asks for more', () => {
  for (let cut = 24; cut < header.length - 32; cut += 7) {
    expect(() => parse(file.subarray(0, cut), file.length)).toThrow(MoreNeeded);
  }
});

test('a file that is cut anywhere is refused', () => {
  for (let cut = 0; cut < file.length - 8; cut++) {
    expect(() => parse(file.subarray(0, cut))).toThrow(AcoerError);
  }
});

function changed(at: number, write: (content: Buffer) => void): Buffer {
  const content = Buffer.from(file);
  write(content.subarray(at));
  return content;
}

describe('refused in a sentence', () => {
  const most = 0xffff_ffff_ffff_ffffn;
  test.each<[string, Buffer, string]>([
    ['another magic', changed(0, (b) => b.write('GGML')), 'it does not begin with GGUF'],
    ['another version', changed(4, (b) => b.writeUInt32LE(9)), 'it has version 9; 2 and 3 can be read'],
    [
      'too many tensors',
      changed(8, (b) => b.writeBigUInt64LE(most)),
      `it has ${most} tensors; the limit is 5000`,
    ],
    ['too many keys', changed(16, (b) => b.writeBigUInt64LE(most)), `it has ${most} keys; the limit is 4096`],
    [
      'a long name',
      changed(24, (b) => b.writeBigUInt64LE(most)),
      `it has ${most} bytes in a name or text; the limit is 500`,
    ],
  ])('%s', (_, content, message) => {
    expect(() => parse(content)).toThrow(message);
  });
});

const number = (at: number, value: number) => changed(at, (b) => b.writeUInt32LE(value));
const shapeAt = file.indexOf('token_embd.weight') + 'token_embd.weight'.length + 4;

test.each<[string, Buffer, string]>([
  [
    'rows of no whole blocks',
    changed(shapeAt, (b) => b.writeBigUInt64LE(16n)),
    'tensor "token_embd.weight" has the shape [3,16], which no Q8_0 has',
  ],
  [
    'a shape beyond all memory',
    changed(shapeAt + 8, (b) => b.writeBigUInt64LE(1n << 40n)),
    'is cut off: tensor "token_embd.weight" ends at byte',
  ],
  [
    'a shape beyond all numbers',
    changed(shapeAt, (b) => (b.writeBigUInt64LE(1n << 40n), b.writeBigUInt64LE(1n << 40n, 8))),
    'which no Q8_0 has',
  ],
  ['many dimensions', number(shapeAt - 4, 5), 'tensor "token_embd.weight" has 5 dimensions'],
  ['a type that is not read', number(shapeAt + 16, 2), "has ggml's type 2; F32, F16, Q8_0, BF16 can be read"],
])('refused: %s', (_, content, message) => {
  expect(() => parse(content)).toThrow(message);
});

test('a file of other alignment, and alignments that are none', () => {
  const aligned = (value: number) => {
    const parts = ggufLayout([['general.alignment', 'u32', value]], [{ name: 'a', type: 'F32', shape: [1] }]);
    return Buffer.concat([parts.header], parts.bytes);
  };
  expect(parse(aligned(8)).tensors[0]!.begin % 8).toBe(0);
  expect(() => parse(aligned(0))).toThrow('its alignment is 0');
  expect(() => parse(aligned(1 << 20))).toThrow('its alignment is 1048576');
});

test('any byte may be another: read, or refused with one code', () => {
  let state = 1;
  const random = (below: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((below * state) / 2 ** 32);
  };
  let refused = 0;
  for (let i = 0; i < 3_000; i++) {
    const content = Buffer.from(file);
    for (let n = 1 + random(3); n > 0; n--)
      content[random(header.length)] = [0, 1, 0x7f, 0x80, 0xff][random(5)]!;
    try {
      for (const { begin, end } of parse(content).tensors) {
        expect(Number.isSafeInteger(begin) && begin >= 24 && end <= content.length).toBe(true);
      }
    } catch (error) {
      expect(error).toMatchObject({ code: 'BAD_FILE' });
      refused++;
    }
  }
  expect(refused).toBeGreaterThan(1_000);
});

const NAMES = [
  ['model.embed_tokens.weight', 'token_embd.weight'],
  ['model.norm.weight', 'output_norm.weight'],
  ['lm_head.weight', 'output.weight'],
  ['model.layers.11.self_attn.q_proj.bias', 'blk.11.attn_q.bias'],
  ['model.layers.0.mlp.down_proj.weight', 'blk.0.ffn_down.weight'],
  ['model.layers.3.post_attention_layernorm.weight', 'blk.3.ffn_norm.weight'],
] as const;

test.each(NAMES)('%s is %s there, and back', (own, ggml) => {
  expect(ggufName(own)).toBe(ggml);
  expect(modelTensorName(ggml)).toBe(own);
});

test('a LoRA has its pairs under the names of their weights', () => {
  expect(modelTensorName('blk.2.attn_k.weight.lora_b')).toBe(
    'base_model.model.model.layers.2.self_attn.k_proj.lora_B.weight',
  );
});

test.each(['model.layers.1.unknown.weight', 'rope_freqs.weight', 'model.layers.x.mlp.up_proj.weight'])(
  '%s has no name there',
  (name) => {
    expect(ggufName(name)).toBeNull();
    expect(modelTensorName(name)).toBeNull();
  },
);

test("only Llama's queries and keys are turned, and not the A of a LoRA on them", () => {
  const spec = { numHeads: 8, numKvHeads: 2 };
  const q = 'model.layers.0.self_attn.q_proj.weight';
  expect(turnedHeads(q, 'llama', spec)).toBe(8);
  expect(turnedHeads(q.replace('q_proj', 'k_proj'), 'llama', spec)).toBe(2);
  expect(turnedHeads(q.replace('q_proj', 'v_proj'), 'llama', spec)).toBeUndefined();
  expect(turnedHeads(q, 'qwen3', spec)).toBeUndefined();
  expect(
    turnedHeads('base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight', 'llama', spec),
  ).toBeUndefined();
  expect(turnedHeads('base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight', 'llama', spec)).toBe(
    8,
  );
});
