/** The keys of a GGUF file that describe a byte-level BPE tokenizer, as llama.cpp's own converter writes them. */
import { badInput } from '../base/errors';
import { isRecord, shownJson } from '../base/json';
import type { GgufKey } from '../models/gguf';
import { readTokenizerFiles, type TokenizerFiles } from '../tokenizer';

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

/** Whether no token but a digit of its own has one, so that it makes no difference how digits are split. */
const digitsApart = ({ vocab }: Vocabulary): boolean =>
  Object.keys(vocab).every((token) => token.length === 1 || !/\d/.test(token));

/**
 * llama.cpp's name for how a text is split.
 * @throws BAD_INPUT for a way that is not known there: another name would give other ids without a word
 */
function splitName(tokenizer: Json, vocabulary: Vocabulary, directory: string): string {
  // Without merges every character is a token, however a text is split.
  if (vocabulary.merges.length === 0) return 'gpt-2';
  const kinds = steps(tokenizer);
  const pattern = kinds.find(({ type }) => type === 'Split')?.pattern;
  const regex = isRecord(pattern) ? pattern.Regex : undefined;
  const named = typeof regex === 'string' ? SPLITS.get(regex) : undefined;
  if (named !== undefined) return named;
  const gpt2 = kinds.every(({ type }) => type === 'Digits' || type === 'ByteLevel') &&
    kinds.some(({ type, use_regex: uses }) => type === 'ByteLevel' && uses !== false); // prettier-ignore
  if (gpt2) return digitsApart(vocabulary) ? 'smollm' : 'gpt-2';
  throw badInput(
    `${directory}: llama.cpp has no known name for how this tokenizer splits a text (${shownJson(tokenizer.pre_tokenizer, 300)}), so a GGUF file would give other tokens without a word; export with --merge instead.`,
  );
}

const looksSpecial = (token: string): boolean => /^(<\|.*\|>|<｜.*｜>|<pad>)$/.test(token);

function tokens(vocabulary: Vocabulary, size: number): { texts: string[]; kinds: number[] } {
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

/** The tokens that a text gets of the tokenizer's own, of its post-processor's template. */
function addsFirst({ tokenizer, config }: TokenizerFiles): boolean | null {
  const post = isRecord(tokenizer.post_processor) ? tokenizer.post_processor : {};
  const all = Array.isArray(post.processors) ? post.processors.filter(isRecord) : [post];
  const template = all.find(({ type }) => type === 'TemplateProcessing');
  const single: unknown[] = Array.isArray(template?.single) ? template.single : [];
  if (isRecord(single[0])) return 'SpecialToken' in single[0];
  if (all.some(({ type }) => type === 'ByteLevel')) return false;
  return typeof config.add_bos_token === 'boolean' ? config.add_bos_token : null;
}

function specialKeys({ config }: TokenizerFiles, { added }: Vocabulary, eos: number | undefined): GgufKey[] {
  const idOf = (name: string): number | undefined => {
    const entry = config[`${name}_token`];
    const text = isRecord(entry) ? entry.content : entry;
    return added.find(({ content }) => content === text)?.id;
  };
  const ids: [string, number | undefined][] = [
    ['bos', idOf('bos')],
    ['eos', eos ?? idOf('eos')],
    ['unknown', idOf('unk')],
    ['padding', idOf('pad')],
  ];
  return ids.flatMap(([name, id]): GgufKey[] =>
    id === undefined ? [] : [[`tokenizer.ggml.${name}_token_id`, 'u32', id]],
  );
}

/**
 * @param size rows of the embedding; places without a token are padded
 * @param eos the id that ends a completion in training, where the tokenizer names another
 */
export async function tokenizerKeys(directory: string, size: number, eos?: number): Promise<GgufKey[]> {
  const files = await readTokenizerFiles(directory);
  const vocabulary = vocabularyOf(files.tokenizer, directory);
  const { texts, kinds } = tokens(vocabulary, size);
  const first = addsFirst(files);
  return [
    ['tokenizer.ggml.model', 'string', 'gpt2'],
    ['tokenizer.ggml.pre', 'string', splitName(files.tokenizer, vocabulary, directory)],
    ['tokenizer.ggml.tokens', 'string[]', texts],
    ['tokenizer.ggml.token_type', 'i32[]', kinds],
    ['tokenizer.ggml.merges', 'string[]', vocabulary.merges],
    ...specialKeys(files, vocabulary, eos),
    ...(files.chatTemplate === null
      ? []
      : ([['tokenizer.chat_template', 'string', files.chatTemplate]] satisfies GgufKey[])),
    ...(first === null ? [] : ([['tokenizer.ggml.add_bos_token', 'bool', first]] satisfies GgufKey[])),
  ];
}
