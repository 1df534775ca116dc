/** Characters that a tokenizer has no token for: it drops or replaces them, so the model never sees them. */
import { isRecord } from '../base/json';
import type { Json } from './files';

export interface Lost {
  /** Number of such characters (code points). */
  count: number;
  /** The first of them. */
  first: string;
}

export type FindLost = (text: string) => Lost | null;

/** A step of the tokenizer with its parts, which `Sequence` nests. */
function typesIn(step: unknown): string[] {
  if (!isRecord(step)) return [];
  const parts = [step['pretokenizers'], step['normalizers']].flatMap((list) =>
    Array.isArray(list) ? (list as unknown[]) : [],
  );
  return [String(step['type']), ...parts.flatMap(typesIn)];
}

/** The character that byte-level tokenizers write for each byte: printable ones for themselves (GPT-2). */
function byteCharacters(): string[] {
  const printable = (byte: number) =>
    (byte > 32 && byte < 127) || (byte > 160 && byte < 173) || (byte > 173 && byte < 256);
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(printable(byte) ? byte : next++));
}

const byteTokens = (): string[] =>
  Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`);

/** The tokens of the vocabulary: an object of ids, or Unigram's list of [token, score]. */
function tokensOf(model: Json): ReadonlySet<string> {
  const { vocab } = model;
  if (Array.isArray(vocab)) return new Set(vocab.map((entry: unknown) => String((entry as unknown[])[0])));
  return new Set(isRecord(vocab) ? Object.keys(vocab) : []);
}

/** The id that stands for what is not in the vocabulary, or null. */
function unknownId(model: Json): number | null {
  const { unk_token: token, unk_id: id, vocab } = model;
  if (typeof id === 'number') return id;
  const found = typeof token === 'string' && isRecord(vocab) ? vocab[token] : undefined;
  return typeof found === 'number' ? found : null;
}

const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');

/** What is between the added tokens, which are recognised before anything else. */
function splitterOf(added: unknown): (text: string) => string[] {
  const contents = (Array.isArray(added) ? (added as unknown[]) : [])
    .map((token) => (isRecord(token) ? token['content'] : null))
    .filter((content) => typeof content === 'string' && content !== '') as string[];
  if (contents.length === 0) return (text) => [text];
  const longestFirst = contents.sort((a, b) => b.length - a.length).map(escaped);
  const pattern = new RegExp(longestFirst.join('|'), 'g');
  return (text) => text.split(pattern);
}

/** Adds up what `lostOf` says of each piece, once for equal ones. */
function counter(pieces: (text: string) => Iterable<string>, lostOf: (piece: string) => string[]): FindLost {
  const known = new Map<string, string[]>();
  return (text) => {
    let lost: Lost | null = null;
    for (const piece of pieces(text)) {
      let characters = known.get(piece);
      if (characters === undefined) known.set(piece, (characters = lostOf(piece)));
      const [first] = characters;
      if (first === undefined) continue;
      lost ??= { count: 0, first };
      lost.count += characters.length;
    }
    return lost;
  };
}

/** Byte-level with part of the alphabet, such as the embedded model's: a character needs each of its bytes. */
function byBytes(tokens: ReadonlySet<string>, split: (text: string) => string[]): FindLost | null {
  const has = byteCharacters().map((character) => tokens.has(character));
  if (has.every(Boolean)) return null;
  const lostOf = (character: string) =>
    Buffer.from(character, 'utf8').every((byte) => has[byte]) ? [] : [character];
  return counter((text) => split(text).flatMap((part) => [...part]), lostOf);
}

/** By what has no ids or the unknown one. Spaces do not count: splitters drop them on purpose. */
function byWords(
  model: Json,
  split: (text: string) => string[],
  encode: (text: string) => ArrayLike<number>,
): FindLost {
  const unknown = unknownId(model);
  const isLost = (text: string) => {
    const ids = Array.from(encode(text));
    return ids.length === 0 || (unknown !== null && ids.includes(unknown));
  };
  // BPE begins with single characters, Unigram has an unknown token for each; elsewhere whole words are unknown.
  const byCharacter = model['type'] === 'BPE';
  const lostOf = (word: string) => {
    if (!isLost(word)) return [];
    const characters = [...word];
    return model['type'] === 'Unigram' ? characters.filter(isLost) : characters;
  };
  const words = (part: string) => part.split(/\s+/).filter((word) => word !== '');
  const pieces = byCharacter ? (part: string) => [...part.replace(/\s/g, '')] : words;
  return counter((text) => split(text).flatMap(pieces), lostOf);
}

/**
 * null when nothing can be lost: byte-level tokenizers, and those that fall back to bytes, with all 256 of them.
 * @param tokenizer tokenizer.json
 * @param encode without special tokens
 */
export function lostFinder(tokenizer: Json, encode: (text: string) => ArrayLike<number>): FindLost | null {
  const { model, added_tokens: added } = tokenizer;
  if (!isRecord(model)) return null;
  const split = splitterOf(added);
  const types = [...typesIn(tokenizer['pre_tokenizer']), ...typesIn(tokenizer['normalizer'])];
  const tokens = tokensOf(model);
  if (types.includes('ByteLevel')) return byBytes(tokens, split);
  if (model['byte_fallback'] === true && byteTokens().every((token) => tokens.has(token))) return null;
  return byWords(model, split, encode);
}
