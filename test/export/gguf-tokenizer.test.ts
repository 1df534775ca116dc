/** Made-up tokenizers: what llama.cpp calls their ways, and what has no name there is refused. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { tokenizerKeys } from '../../src/export/gguf-tokenizer';
import type { GgufKey } from '../../src/models/gguf';

const TINY = join(__dirname, '..', '..', 'assets', 'tiny');

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'acoer-gguf-tokenizer-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

type Json = Record<string, Record<string, unknown>>;

/** A tokenizer of a few tokens whose text is split and merged as Qwen's is. */
function small(change: (tokenizer: Json) => void): string {
  const tokenizer = JSON.parse(readFileSync(join(TINY, 'tokenizer.json'), 'utf8')) as Json;
  Object.assign(tokenizer.model!, { merges: [['1', '2']] });
  Object.assign(tokenizer, { pre_tokenizer: sequence(split(QWEN), { ...bytes, use_regex: false }) });
  change(tokenizer);
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(tokenizer));
  return folder;
}

const QWEN =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const split = (Regex: string) => ({ type: 'Split', pattern: { Regex }, behavior: 'Isolated', invert: false });
const keyOf = (keys: readonly GgufKey[], name: string) => keys.find(([key]) => key === name)?.[2];
const bytes = { type: 'ByteLevel', add_prefix_space: false, use_regex: true };
const digits = { type: 'Digits', individual_digits: true };
const sequence = (...pretokenizers: unknown[]) => ({ type: 'Sequence', pretokenizers });

test.each<[string, string, (tokenizer: Json) => void]>([
  ["Qwen's", 'qwen2', () => undefined],
  ["GPT-2's", 'gpt-2', (t) => Object.assign(t, { pre_tokenizer: bytes })],
  ["GPT-2's between digits", 'smollm', (t) => Object.assign(t, { pre_tokenizer: sequence(digits, bytes) })],
  ['anything without merges', 'gpt-2', (t) => Object.assign(t, { pre_tokenizer: null, model: { ...t.model, merges: [] } })],
])('a split: %s', async (_, name, change) => {
  expect(keyOf(await tokenizerKeys(small(change), 64, []), 'tokenizer.ggml.pre')).toBe(name);
}); // prettier-ignore

const SPLITS = 'llama.cpp has no known name for how this tokenizer splits a text (';

test.each<[string, (tokenizer: Json) => void]>([
  [`${SPLITS}{"type":"Whitespace"})`, (t) => Object.assign(t, { pre_tokenizer: { type: 'Whitespace' } })],
  [`${SPLITS}null)`, (t) => Object.assign(t, { pre_tokenizer: null })],
  [
    `${SPLITS}{"type":"ByteLevel","add_prefix_space":true,"use_regex":true})`,
    (t) => Object.assign(t, { pre_tokenizer: { ...bytes, add_prefix_space: true } }),
  ],
  [
    `${SPLITS}{"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":false}`,
    (t) => Object.assign(t, { pre_tokenizer: sequence({ ...digits, individual_digits: false }, bytes) }),
  ],
  [
    'how this tokenizer changes a text ({"type":"Lowercase"})',
    (t) => Object.assign(t, { normalizer: { type: 'Lowercase' } }),
  ],
  [
    'how this tokenizer merges ({"pre_tokenizer":"qwen2","ignore_merges":true})',
    (t) => Object.assign(t.model!, { ignore_merges: true }),
  ],
  [
    'only byte-level BPE tokenizers can be written as GGUF, not "BPE" with byte fallback (SentencePiece).',
    (t) => Object.assign(t.model!, { byte_fallback: true }),
  ],
  [
    'only byte-level BPE tokenizers can be written as GGUF, not "Unigram".',
    (t) => Object.assign(t.model!, { type: 'Unigram' }),
  ],
  [
    'its tokenizer has the token id 64, but the model has 64 tokens.',
    (t) => (t.added_tokens as unknown as unknown[]).push({ id: 64, content: '<new>', special: false }),
  ],
])('refused: %s', async (message, change) => {
  await expect(tokenizerKeys(small(change), 64, [])).rejects.toMatchObject({
    code: 'BAD_INPUT',
    message: expect.stringContaining(message),
  });
});

test('added tokens, rows without a token, and ends that llama.cpp does not know', async () => {
  const added = [
    { id: 60, content: '<answer>', special: false },
    { id: 61, content: '<stop>', special: true },
    { id: 62, content: '<|im_end|>', special: true },
  ];
  const directory = small((t) => Object.assign(t, { added_tokens: added }));
  writeFileSync(join(directory, 'tokenizer_config.json'), JSON.stringify({ eos_token: '<|im_end|>' }));
  const keys = await tokenizerKeys(directory, 64, [61, 62]);
  const tokens = keyOf(keys, 'tokenizer.ggml.tokens') as string[];
  expect(tokens.slice(60)).toEqual(['<answer>', '<stop>', '<|im_end|>', '[PAD63]']);
  expect((keyOf(keys, 'tokenizer.ggml.token_type') as number[]).slice(60)).toEqual([4, 3, 3, 5]);
  expect(keyOf(keys, 'tokenizer.ggml.eos_token_id')).toBe(62);
  expect(keyOf(keys, 'tokenizer.ggml.eot_token_id')).toBe(61);
});
