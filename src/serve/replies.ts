/** Answers in the form of OpenAI's API, whole and in chunks, with token ids where vLLM has them. */
import type { Answer, Piece } from '../chat';
import type { Tokenizer } from '../tokenizer';
import type { Wanted } from './wire';

export interface Reply {
  /** Of the request; in every chunk the same. */
  id: string;
  createdSeconds: number;
  wanted: Wanted;
  tokenizer: Tokenizer;
}

/** Tokens of a whole answer or of a piece of one. */
type Tokens = Pick<Answer, 'ids' | 'logprobs'>;

/** What a token reads as by itself, where half of a character is U+FFFD. */
const textOf = ({ tokenizer }: Reply, id: number): string => tokenizer.decode([id]);

function chatLogprobs(reply: Reply, { ids, logprobs }: Tokens): object {
  const content = ids.map((id, i) => {
    const token = textOf(reply, id);
    return { token, logprob: logprobs[i], bytes: [...Buffer.from(token)], top_logprobs: [] };
  });
  return { content };
}

function completionLogprobs(reply: Reply, { ids, logprobs }: Tokens, offset: number): object {
  const tokens = ids.map((id) => textOf(reply, id));
  let at = offset;
  const offsets = tokens.map((token) => (at += token.length) - token.length);
  return { tokens, token_logprobs: logprobs, top_logprobs: null, text_offset: offsets };
}

export interface Usage {
  promptTokens: number;
  completionTokens: number;
  thinkingTokens: number;
}

export const usageBody = ({ promptTokens, completionTokens, thinkingTokens }: Usage) => ({
  prompt_tokens: promptTokens,
  completion_tokens: completionTokens,
  total_tokens: promptTokens + completionTokens,
  completion_tokens_details: { reasoning_tokens: thinkingTokens },
});

const head = ({ id, createdSeconds, wanted }: Reply, object: string) => ({
  ...{ id, object, created: createdSeconds, model: wanted.weights },
});

const idsOf = ({ wanted }: Reply, { ids }: Pick<Tokens, 'ids'>) =>
  wanted.tokenIds ? { token_ids: ids } : {};

export function chatBody(
  reply: Reply,
  answers: readonly Answer[],
  usage: Usage,
  promptIds: Int32Array,
): object {
  const { wanted } = reply;
  const choices = answers.map((answer) => ({
    index: answer.sample,
    message: {
      role: 'assistant',
      content: answer.text,
      reasoning_content: answer.thinking === '' ? null : answer.thinking,
      refusal: null,
    },
    logprobs: wanted.logprobs ? chatLogprobs(reply, answer) : null,
    finish_reason: answer.finish,
    stop_reason: answer.stop,
    ...idsOf(reply, answer),
  }));
  const prompt = wanted.tokenIds ? { prompt_token_ids: [...promptIds] } : {};
  return { ...head(reply, 'chat.completion'), choices, usage: usageBody(usage), ...prompt };
}

export function completionBody(
  reply: Reply,
  answered: readonly { answers: readonly Answer[]; promptIds: Int32Array }[],
  usage: Usage,
): object {
  const { wanted } = reply;
  const choices = answered.flatMap(({ answers, promptIds }, prompt) =>
    answers.map((answer) => ({
      index: prompt * wanted.samples + answer.sample,
      text: answer.text,
      logprobs: wanted.logprobs ? completionLogprobs(reply, answer, 0) : null,
      finish_reason: answer.finish,
      stop_reason: answer.stop,
      ...idsOf(reply, answer),
      ...(wanted.tokenIds && { prompt_token_ids: [...promptIds] }),
    })),
  );
  return { ...head(reply, 'text_completion'), choices, usage: usageBody(usage) };
}

/** A chunk of one choice. */
export function chatChunk(
  reply: Reply,
  index: number,
  delta: object,
  more: { tokens?: Tokens; finish?: Answer['finish']; stop?: string | null } = {},
): object {
  const { tokens, finish = null, stop } = more;
  const choice = {
    ...{ index, delta },
    logprobs: tokens !== undefined && reply.wanted.logprobs ? chatLogprobs(reply, tokens) : null,
    finish_reason: finish,
    ...(finish !== null && { stop_reason: stop ?? null }),
    ...(tokens !== undefined && idsOf(reply, tokens)),
  };
  return { ...head(reply, 'chat.completion.chunk'), choices: [choice] };
}

/** What is new in a piece; nothing for one whose text still waits. */
export const deltaOf = ({ text, thinking }: Piece) => ({
  ...(thinking !== '' && { reasoning_content: thinking }),
  ...(text !== '' && { content: text }),
});

export function completionChunk(
  reply: Reply,
  index: number,
  piece: Pick<Piece, 'text' | 'ids' | 'logprobs'>,
  more: { offset: number; finish?: Answer['finish']; stop?: string | null; promptIds?: Int32Array },
): object {
  const { offset, finish = null, stop, promptIds } = more;
  const choice = {
    ...{ index, text: piece.text },
    logprobs: reply.wanted.logprobs ? completionLogprobs(reply, piece, offset) : null,
    finish_reason: finish,
    ...(finish !== null && { stop_reason: stop ?? null }),
    ...idsOf(reply, piece),
    ...(reply.wanted.tokenIds && promptIds !== undefined && { prompt_token_ids: [...promptIds] }),
  };
  return { ...head(reply, 'text_completion'), choices: [choice] };
}

export const usageChunk = (reply: Reply, object: string, usage: Usage): object => ({
  ...head(reply, object),
  choices: [],
  usage: usageBody(usage),
});
