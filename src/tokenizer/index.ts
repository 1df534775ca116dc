/** Text to token ids and back, chat templates, and the counting of thinking tokens. */
import { AcoerError, errorMessage } from '../errors';
import type { ChatMessage } from '../types';
import { type Json, readTokenizerFiles, type TokenizerFiles } from './files';
import { jinjaLibrary, tokenizersLibrary } from './libraries';

export { Pace } from '../pace';
export {
  DEFAULT_PROMPT_TEMPLATE,
  fillTemplate,
  type PromptOptions,
  renderPrompt,
  renderPrompts,
} from './prompt';
export { measureThinking, thinkLeftOpen } from './thinking';

export interface ChatOptions {
  /** Passed to the template as `enable_thinking`. */
  enableThinking: boolean;
  addGenerationPrompt: boolean;
}

export interface Tokenizer {
  /** No special tokens are added; those written in `text` are recognised. A lone surrogate counts as U+FFFD. */
  encode(text: string): Int32Array;
  decode(ids: ArrayLike<number>, options?: { skipSpecial?: boolean }): string;
  renderChat(messages: readonly ChatMessage[], options: ChatOptions): string;
  /** `<think>` and `</think>`, or null where the vocabulary has no such token. */
  readonly thinkOpenId: number | null;
  readonly thinkCloseId: number | null;
  /** The ids that end a completion: generation_config's list and the tokenizer's own. */
  readonly eosIds: number[];
  readonly padId: number;
  /** Highest id + 1; the model's embedding may have more rows. */
  readonly vocabSize: number;
}

/** A token named in tokenizer_config.json, as a string or as {content}. */
function tokenText(value: unknown): string | null {
  if (typeof value === 'string') return value;
  const content = (value as { content?: unknown } | null | undefined)?.content;
  return typeof content === 'string' ? content : null;
}

function idList(value: unknown): number[] {
  const list = Array.isArray(value) ? value : [value];
  return list.filter((id): id is number => Number.isInteger(id));
}

type Library = InstanceType<typeof tokenizersLibrary.Tokenizer>;

function construct(directory: string, files: TokenizerFiles): Library {
  try {
    return new tokenizersLibrary.Tokenizer(files.tokenizer, files.config);
  } catch (error) {
    throw new AcoerError('BAD_INPUT', `Cannot use ${directory}/tokenizer.json: ${errorMessage(error)}`, {
      cause: error,
    });
  }
}

function makeRenderer(directory: string, source: string | null, config: Json): Tokenizer['renderChat'] {
  if (source === null) {
    return () => {
      throw new AcoerError(
        'BAD_INPUT',
        `${directory} has no chat template (chat_template in tokenizer_config.json, or chat_template.jinja)`,
      );
    };
  }
  const template = new jinjaLibrary.Template(source);
  const special = Object.fromEntries(
    ['bos_token', 'eos_token', 'pad_token', 'unk_token'].map((name) => [name, tokenText(config[name])]),
  );
  return (messages, { enableThinking, addGenerationPrompt }) => {
    try {
      return template.render({
        ...special,
        messages: messages.map((message) => ({ ...message })),
        add_generation_prompt: addGenerationPrompt,
        enable_thinking: enableThinking,
      });
    } catch (error) {
      throw new AcoerError('BAD_INPUT', `The chat template of ${directory} failed: ${errorMessage(error)}`, {
        cause: error,
      });
    }
  };
}

/** @param directory a Hugging Face model directory: tokenizer.json, tokenizer_config.json, generation_config.json */
export async function loadTokenizer(directory: string): Promise<Tokenizer> {
  const files = await readTokenizerFiles(directory);
  const library = construct(directory, files);
  const idOf = (text: string | null): number | null =>
    text === null ? null : (library.token_to_id(text) ?? null);
  const eosId = idOf(tokenText(files.config.eos_token));
  const eosIds = [...new Set([...idList(files.generation.eos_token_id), ...(eosId === null ? [] : [eosId])])];
  if (eosIds.length === 0) {
    throw new AcoerError(
      'BAD_INPUT',
      `${directory} names no end-of-sequence token: set eos_token in tokenizer_config.json or eos_token_id in generation_config.json`,
    );
  }
  const ids = [...library.get_vocab(true).values(), ...library.get_added_tokens_decoder().keys()];
  return {
    encode: (text) => Int32Array.from(library.encode(text, { add_special_tokens: false }).ids),
    decode: (tokens, options) =>
      tokens.length === 0
        ? ''
        : library.decode(Array.from(tokens), {
            skip_special_tokens: options?.skipSpecial ?? false,
            clean_up_tokenization_spaces: false,
          }),
    renderChat: makeRenderer(directory, files.chatTemplate, files.config),
    thinkOpenId: idOf('<think>'),
    thinkCloseId: idOf('</think>'),
    eosIds,
    padId: idOf(tokenText(files.config.pad_token)) ?? idList(files.generation.pad_token_id)[0] ?? eosIds[0],
    vocabSize: ids.reduce((highest, id) => Math.max(highest, id), -1) + 1,
  };
}
