/** Text to token ids and back, chat templates and counting thinking tokens. */
import { withinTime } from '../base/deadline';
import { badInput, errorMessage } from '../base/errors';
import { isRecord, shownJson } from '../base/json';
import { maximum } from '../base/statistics';
import { needThreads, TIMER_THREADS } from '../base/threads';
import { readTokenizerFiles, type TokenizerFiles, type TokenizerFingerprints } from './files';
import { tokenizersLibrary } from './libraries';
import { type FindLost, lostFinder } from './lost';
import { makeRenderer, type RenderChat } from './template';

export { readTokenizerFiles, type TokenizerFiles, type TokenizerFingerprints } from './files';
export { givenTokenizer } from './given';
export { IncrementalText } from './incremental';
export type { Lost } from './lost';
export {
  DEFAULT_PROMPT_TEMPLATE,
  fillTemplate,
  promptMessages,
  promptTokens,
  type RenderedChat,
  renderForAnswer,
  renderPrompt,
  renderPrompts,
  usualPromptTemplate,
} from './prompt';
export { LostCharacters, promptFaults } from './prompt-faults';
export { measureCompletion, measureThinking, thinkLeftOpen } from './thinking';

export interface Tokenizer {
  /** Adds no special tokens, but recognises those in `text`. A lone surrogate counts as U+FFFD. */
  encode(text: string): Int32Array;
  decode(ids: ArrayLike<number>, options?: { skipSpecial?: boolean }): string;
  readonly renderChat: RenderChat;
  /** Ids of `<think>` and `</think>`, or null if the vocabulary has no such token. */
  readonly thinkOpenId: number | null;
  readonly thinkCloseId: number | null;
  /** The ids that end a completion: those of generation_config and the tokenizer's own. */
  readonly eosIds: number[];
  readonly padId: number;
  /** The text of eos_token; absent: that of the first of `eosIds`. */
  readonly eosToken?: string;
  /** What the tokenizer puts before a text of its own, such as Llama's begin of text; absent: nothing. */
  readonly firstIds?: readonly number[];
  /**
   * The characters of a text that it has no token for, which the model therefore never sees; null: none. Absent
   * where nothing can be lost, as in a byte-level tokenizer with all 256 bytes.
   */
  readonly findLost?: FindLost;
  /** Highest id + 1; the model's embedding may have more rows. */
  readonly vocabSize: number;
  /** Those of the files it was made from; a tokenizer without them is trusted to be the same when a run is resumed. */
  readonly fingerprints?: TokenizerFingerprints;
}

/** A token given in tokenizer_config.json as a string or as {content}. */
function tokenText(value: unknown): string | null {
  if (typeof value === 'string') return value;
  const content = (value as { content?: unknown } | null | undefined)?.content;
  return typeof content === 'string' ? content : null;
}

/**
 * The library keeps a place for every id up to the highest. The largest vocabularies have 262,144 tokens; this
 * is sixteen times as many.
 */
const MAX_IDS = 1 << 22;

const isId = (id: unknown): id is number =>
  Number.isInteger(id) && (id as number) >= 0 && (id as number) < MAX_IDS;

function idList(value: unknown): number[] {
  const list = Array.isArray(value) ? value : [value];
  return list.filter(isId);
}

type Library = InstanceType<typeof tokenizersLibrary.Tokenizer>;

function renderer(directory: string, { chatTemplate, config }: TokenizerFiles): RenderChat {
  if (chatTemplate === null) {
    return () => {
      throw badInput(
        `${directory} has no chat template (chat_template in tokenizer_config.json, or chat_template.jinja)`,
      );
    };
  }
  const special = ['bos_token', 'eos_token', 'pad_token', 'unk_token'].map(
    (name) => [name, tokenText(config[name])] as const,
  );
  return makeRenderer(directory, chatTemplate, Object.fromEntries(special));
}

/**
 * A tokenizer's normaliser and splitter are regular expressions from its file, which may backtrack forever.
 */
const LIMIT_MS = 10_000;
const LIMIT_MS_PER_CHARACTER = 0.02;

/** Runs `work` of the tokenizer library. @throws BAD_INPUT when it fails */
function guarded<T>(directory: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw badInput(`Cannot use ${directory}/tokenizer.json: ${errorMessage(error)}`, error);
  }
}

/** The ids in the file, which the library would take as they are. */
function idsOf({ model, added_tokens: added }: TokenizerFiles['tokenizer']): unknown[] {
  const vocab = isRecord(model) && isRecord(model['vocab']) ? Object.values(model['vocab']) : [];
  const own: unknown[] = Array.isArray(added) ? added : [];
  return vocab.concat(own.map((token) => (isRecord(token) ? token['id'] : token)));
}

/** @throws Error for the first that is not an id */
function checkIds(ids: readonly unknown[]): asserts ids is readonly number[] {
  const wrong = ids.findIndex((id) => !isId(id));
  if (wrong < 0) return;
  throw new Error(`it has ${shownJson(ids[wrong])} where a token id belongs (0 to ${MAX_IDS - 1})`);
}

/** The highest id of the vocabulary; -1 if it is empty. */
function highestId(library: Library): number {
  const ids = [...library.get_vocab(true).values(), ...library.get_added_tokens_decoder().keys()];
  checkIds(ids);
  return maximum([-1, ...ids]);
}

function openLibrary(directory: string, files: TokenizerFiles): { library: Library; vocabSize: number } {
  const ids = idsOf(files.tokenizer);
  guarded(directory, () => checkIds(ids));
  const make = () => {
    const library = new tokenizersLibrary.Tokenizer(files.tokenizer, files.config);
    return { library, vocabSize: highestId(library) + 1 };
  };
  return strictly(() => timed(directory, ids.length, make));
}

/** The library only warns about a rule that it does not know, and leaves it out. */
function strictly<T>(work: () => T): T {
  /* eslint-disable no-console -- taken from the library, not printed */
  const { warn } = console;
  console.warn = (...words: unknown[]) => {
    throw new Error(words.join(' '));
  };
  try {
    return work();
  } finally {
    console.warn = warn;
  }
  /* eslint-enable no-console */
}

/** Runs `work` on `length` characters or tokens. @throws BAD_INPUT when it fails or takes too long */
function timed<T>(directory: string, length: number, work: () => T): T {
  const limitMs = Math.ceil(LIMIT_MS + LIMIT_MS_PER_CHARACTER * length);
  return guarded(directory, () => {
    const done = withinTime(limitMs, work);
    if (done === null)
      throw new Error(`its rules take more than ${limitMs} ms for ${length} characters or tokens`);
    return done.value;
  });
}

/** Up to this many characters or tokens plain work takes less than the limit, whatever is in the file. */
const MAX_PLAIN = 10_000;

/** What needs no limit, which costs a thread and 0.2 ms: work without regular expressions or searches. */
function plainWork({ tokenizer }: TokenizerFiles): { encode: boolean; decode: boolean } {
  const { normalizer, pre_tokenizer: splitter, model, decoder, added_tokens: added } = tokenizer;
  const isOf = (type: string, rule: unknown) => isRecord(rule) && rule['type'] === type;
  const splitsNothing = isRecord(splitter) && isOf('ByteLevel', splitter) && splitter['use_regex'] === false;
  // Each token that is decoded is looked for among the added ones.
  const fewAdded = !Array.isArray(added) || added.length <= MAX_PLAIN;
  return {
    encode: (normalizer ?? null) === null && splitsNothing && isOf('BPE', model),
    decode: isOf('ByteLevel', decoder) && fewAdded,
  };
}

/** `timed`, or without a limit if the work is plain and short. */
const limited = <T>(directory: string, plain: boolean, length: number, work: () => T): T =>
  plain && length <= MAX_PLAIN ? guarded(directory, work) : timed(directory, length, work);

/** The ids before a text that is encoded with special tokens. */
function firstIdsOf(directory: string, library: Library): number[] {
  const ids = (special: boolean) =>
    timed(directory, 1, () => library.encode('a', { add_special_tokens: special }).ids);
  const [whole, plain] = [ids(true), ids(false)];
  const at = whole.findIndex((_, i) => plain.every((id, k) => whole[i + k] === id));
  return at < 0 ? [] : whole.slice(0, at);
}

/**
 * @param directory a Hugging Face model directory: tokenizer.json, tokenizer_config.json,
 * generation_config.json
 */
export async function loadTokenizer(directory: string): Promise<Tokenizer> {
  needThreads(TIMER_THREADS, 'The tokenizer');
  const files = await readTokenizerFiles(directory);
  const { library, vocabSize } = openLibrary(directory, files);
  const plain = plainWork(files);
  const idOf = (text: string | null): number | null =>
    text === null ? null : (library.token_to_id(text) ?? null);
  const eosToken = tokenText(files.config.eos_token);
  const eosId = idOf(eosToken);
  const eosIds = [...new Set([...idList(files.generation.eos_token_id), ...(eosId === null ? [] : [eosId])])];
  if (eosIds.length === 0) {
    throw badInput(
      `${directory} names no end-of-sequence token: set eos_token in tokenizer_config.json or eos_token_id in generation_config.json`,
    );
  }
  const encode = (text: string): Int32Array =>
    limited(directory, plain.encode, text.length, () =>
      Int32Array.from(library.encode(text, { add_special_tokens: false }).ids),
    );
  const findLost = lostFinder(files.tokenizer, encode);
  return {
    encode,
    decode: (tokens, options) =>
      tokens.length === 0
        ? ''
        : limited(directory, plain.decode, tokens.length, () =>
            library.decode(Array.from(tokens), {
              skip_special_tokens: options?.skipSpecial ?? false,
              clean_up_tokenization_spaces: false,
            }),
          ),
    renderChat: renderer(directory, files),
    thinkOpenId: idOf('<think>'),
    thinkCloseId: idOf('</think>'),
    eosIds,
    padId: idOf(tokenText(files.config.pad_token)) ?? idList(files.generation.pad_token_id)[0] ?? eosIds[0]!,
    ...(eosToken !== null && eosId !== null && { eosToken }),
    firstIds: firstIdsOf(directory, library),
    ...(findLost !== null && { findLost }),
    vocabSize,
    fingerprints: files.fingerprints,
  };
}
