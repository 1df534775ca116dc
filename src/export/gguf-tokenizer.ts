/** The keys of a GGUF file that describe a byte-level BPE tokenizer, as llama.cpp's own converter writes them. */
import { badInput } from '../base/errors';
import { isRecord, shownJson } from '../base/json';
import { maximum } from '../base/statistics';
import type { GgufKey } from '../models/gguf';
import { readTokenizerFiles, type TokenizerFiles } from '../tokenizer';
import { samplingKeys } from './gguf-keys';

type Json = Record<string, unknown>;

/** llama.cpp's kinds of tokens. */
const KIND = { normal: 1, control: 3, userDefined: 4, unused: 5 } as const;

/** What llama.cpp calls the ways to split a text before merging, by the pattern in tokenizer.json. */
const SPLITS: ReadonlyMap<string, string> = new Map([
  [
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    'qwen2',
  ],
  [
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    'llama-bpe',
  ],
  [
    '[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+',
    'tekken',
  ],
]);

interface Vocabulary {
  vocab: Record<string, number>;
  /** `a b`. */
  merges: string[];
  added: { id: number; content: string; special: boolean }[];
}

const isAdded = (value: unknown): value is Vocabulary['added'][number] =>
  isRecord(value) && typeof value.id === 'number' && typeof value.content === 'string';

/** @throws BAD_INPUT for a tokenizer that is no byte-level BPE */
function vocabularyOf(tokenizer: Json, directory: string): Vocabulary {
  const model = isRecord(tokenizer.model) ? tokenizer.model : {};
  const { type, vocab, merges, byte_fallback: bytes } = model;
  if (type !== 'BPE' || bytes === true || !isRecord(vocab) || !Array.isArray(merges)) {
    throw badInput(
      `${directory}: only byte-level BPE tokenizers can be written as GGUF, not ${shownJson(type)}${bytes === true ? ' with byte fallback (SentencePiece)' : ''}.`,
    );
  }
  const added = Array.isArray(tokenizer.added_tokens) ? tokenizer.added_tokens.filter(isAdded) : [];
  // A space inside a part has the place that byte-level vocabularies give it.
  const part = (text: string) => text.replaceAll(' ', 'Ġ');
  return {
    vocab: vocab as Record<string, number>,
    merges: merges.map((pair) =>
      Array.isArray(pair) ? pair.map((text) => part(String(text))).join(' ') : String(pair),
    ),
    added,
  };
}

/** The steps of the pre-tokenizer, one after the other. */
function steps(tokenizer: Json): Json[] {
  const { pre_tokenizer: pre } = tokenizer;
  if (!isRecord(pre)) return [];
  const list = pre.type === 'Sequence' ? pre.pretokenizers : [pre];
  return Array.isArray(list) ? list.filter(isRecord) : [];
}

function knownSplit(tokenizer: Json, vocabulary: Vocabulary): string | undefined {
  // Without merges every character is a token, however a text is split.
  if (vocabulary.merges.length === 0) return 'gpt-2';
  const kinds = steps(tokenizer);
  const [bytes, before] = [kinds.at(-1), kinds.slice(0, -1)];
  if (bytes?.type !== 'ByteLevel' || bytes.add_prefix_space === true) return undefined;
  if (bytes.use_regex !== false) {
    // GPT-2's own pattern, on a text or between its digits.
    const digits = before.every(({ type, individual_digits: apart }) => type === 'Digits' && apart === true);
    if (!digits) return undefined;
    return before.length > 0 ? 'smollm' : 'gpt-2';
  }
  const [split] = before;
  if (
    before.length !== 1 ||
    split?.type !== 'Split' ||
    split.behavior !== 'Isolated' ||
    split.invert === true
  )
    return undefined;
  const regex = isRecord(split.pattern) ? split.pattern.Regex : undefined;
  return typeof regex === 'string' ? SPLITS.get(regex) : undefined;
}

/** Names with which llama.cpp takes a word that is in the vocabulary whole, whatever the merges say. */
const WHOLE_WORDS: ReadonlySet<string> = new Set(['llama-bpe', 'tekken']);

/**
 * llama.cpp's name for how a text becomes tokens.
 * @throws BAD_INPUT for a way that is not known there: another name would give other ids without a word
 */
function splitName(tokenizer: Json, vocabulary: Vocabulary, directory: string): string {
  const refused = (what: string, json: unknown) =>
    badInput(
      `${directory}: llama.cpp has no known name for ${what} (${shownJson(json, 300)}), so a GGUF file would give other tokens without a word; export with --merge instead.`,
    );
  const { normalizer, model, pre_tokenizer: pre } = tokenizer;
  // llama.cpp changes no text; NFC leaves nearly all as they are.
  if (isRecord(normalizer) && normalizer.type !== 'NFC')
    throw refused('how this tokenizer changes a text', normalizer);
  const name = knownSplit(tokenizer, vocabulary);
  if (name === undefined) throw refused('how this tokenizer splits a text', pre);
  const whole = isRecord(model) && model.ignore_merges === true;
  if (vocabulary.merges.length > 0 && whole !== WHOLE_WORDS.has(name))
    throw refused('how this tokenizer merges', { pre_tokenizer: name, ignore_merges: whole });
  return name;
}

const looksSpecial = (token: string): boolean => /^(<\|.*\|>|<｜.*｜>|<pad>)$/.test(token);

/** @throws BAD_INPUT for a token that the model has no row for */
function tokens(
  vocabulary: Vocabulary,
  size: number,
  directory: string,
): { texts: string[]; kinds: number[] } {
  const ids = [...Object.values(vocabulary.vocab), ...vocabulary.added.map(({ id }) => id)];
  const last = maximum(ids);
  if (last >= size)
    throw badInput(`${directory}: its tokenizer has the token id ${last}, but the model has ${size} tokens.`);
  const texts = Array.from({ length: size }, (_, id) => `[PAD${id}]`);
  const kinds = new Array<number>(size).fill(KIND.unused);
  for (const [text, id] of Object.entries(vocabulary.vocab)) {
    texts[id] = text;
    kinds[id] = KIND.normal;
  }
  for (const { id, content, special } of vocabulary.added) {
    texts[id] = content;
    kinds[id] = special || looksSpecial(content) ? KIND.control : KIND.userDefined;
  }
  return { texts, kinds };
}

const textOf = (entry: unknown): unknown => (isRecord(entry) ? entry.content : entry);

const specialIn = (place: unknown): unknown =>
  isRecord(place) && isRecord(place.SpecialToken) ? place.SpecialToken.id : undefined;

/** Between the two texts of a pair. */
function between(pair: readonly unknown[]): unknown[] {
  const texts = pair.flatMap((place, i) => (isRecord(place) && 'Sequence' in place ? [i] : []));
  return pair.slice(texts[0]! + 1, texts.at(-1)).map(specialIn);
}

type Added = 'bos' | 'eos' | 'sep';

/** Which tokens a text gets before, after and between, as the post-processor or else the config says. */
function addedKeys({ tokenizer, config }: TokenizerFiles): GgufKey[] {
  const post = isRecord(tokenizer.post_processor) ? tokenizer.post_processor : {};
  const all = Array.isArray(post.processors) ? post.processors.filter(isRecord) : [post];
  const adds = new Map<Added, boolean>();
  if (all.some(({ type }) => type === 'ByteLevel')) adds.set('bos', false).set('eos', false);
  const template = all.find(({ type }) => type === 'TemplateProcessing');
  const single: unknown[] = Array.isArray(template?.single) ? template.single : [];
  const [first, last] = [specialIn(single[0]), specialIn(single.at(-1))];
  const [bos, eos, sep] = (['bos', 'eos', 'sep'] as const).map((name) => textOf(config[`${name}_token`]));
  if (first !== undefined) adds.set('bos', first === (bos ?? first));
  if (last !== undefined) adds.set('eos', last === (eos ?? last));
  const middle = Array.isArray(template?.pair) ? between(template.pair) : [];
  if (middle.length > 0)
    adds.set(
      'sep',
      middle.some((text) => text === sep || text === eos),
    );
  for (const name of ['bos', 'eos', 'sep'] as const) {
    const said = config[`add_${name}_token`];
    if (typeof said === 'boolean' && !adds.has(name)) adds.set(name, said);
  }
  // What llama.cpp takes else depends on the name of the split.
  if (!adds.has('bos')) adds.set('bos', false);
  return [...adds].map(([name, value]) => [`tokenizer.ggml.add_${name}_token`, 'bool', value]);
}

/** Texts by which llama.cpp knows the end of an answer itself. */
const ENDS: ReadonlySet<string> = new Set([
  ...['<|im_end|>', '<|endoftext|>', '<|eot_id|>', '<|eom_id|>', '<|end_of_text|>', '<|end|>', '<|return|>'],
  ...['</s>', '<end_of_turn>', '<EOT>', '<eos>', '<｜end▁of▁sentence｜>'],
]);

/** @param eosIds all that end a completion; those that llama.cpp would not know go where it looks for others */
function specialKeys(
  { config }: TokenizerFiles,
  texts: readonly string[],
  { added }: Vocabulary,
  eosIds: readonly number[],
): GgufKey[] {
  const idOf = (name: string): number | undefined => {
    const text = textOf(config[`${name}_token`]);
    return added.find(({ content }) => content === text)?.id;
  };
  const eos = idOf('eos') ?? eosIds[0];
  const [eot, eom] = eosIds.filter((id) => id !== eos && !ENDS.has(texts[id]!));
  const ids = { bos: idOf('bos'), eos, unknown: idOf('unk'), padding: idOf('pad'), eot, eom };
  return Object.entries(ids).flatMap(([name, id]): GgufKey[] =>
    id === undefined ? [] : [[`tokenizer.ggml.${name}_token_id`, 'u32', id]],
  );
}

/**
 * @param size rows of the embedding; places without a token are padded
 * @param eosIds the ids that end a completion in training
 */
export async function tokenizerKeys(
  directory: string,
  size: number,
  eosIds: readonly number[],
): Promise<GgufKey[]> {
  const files = await readTokenizerFiles(directory);
  const vocabulary = vocabularyOf(files.tokenizer, directory);
  const { texts, kinds } = tokens(vocabulary, size, directory);
  return [
    ...samplingKeys(files.generation),
    ['tokenizer.ggml.model', 'string', 'gpt2'],
    ['tokenizer.ggml.pre', 'string', splitName(files.tokenizer, vocabulary, directory)],
    ['tokenizer.ggml.tokens', 'string[]', texts],
    ['tokenizer.ggml.token_type', 'i32[]', kinds],
    ['tokenizer.ggml.merges', 'string[]', vocabulary.merges],
    ...specialKeys(files, texts, vocabulary, eosIds),
    ...(files.chatTemplate === null
      ? []
      : ([['tokenizer.chat_template', 'string', files.chatTemplate]] satisfies GgufKey[])),
    ...addedKeys(files),
  ];
}
