/**
 * Requests of OpenAI's API and of vLLM's additions to it, checked. What is not here is refused by name: a field that
 * is silently ignored gives other answers than were asked for.
 * https://platform.openai.com/docs/api-reference/chat/create, https://docs.vllm.ai/en/stable/serving/openai_compatible_server
 */
import { z } from 'zod';
import type { ChatMessage } from '../base/types';
import { didYouMean } from '../config/nearest';
import { isRecord, shownJson } from '../base/json';
import { ApiError } from './errors';

const MOST_SAMPLES = 128;
const MOST_STOPS = 16;
const MOST_PROMPTS = 256;

const count = (most: number) => z.int('must be a whole number').min(1).max(most);
/** A seed of 64 bits is more than a number of JavaScript's holds; the nearest one serves as well. */
const wholeNumber = z.number().refine(Number.isInteger, 'must be a whole number');
const tokenId = z.int('must be a token id').min(0);
const zero = z.literal(0, 'must be 0: penalties are not computed here');
const texts = z.union([z.string(), z.array(z.string()).max(MOST_STOPS)], 'must be a text or a list of texts');
/** Accepted, and of no consequence for what is answered. */
const ignored = z.unknown().optional();

const COMMON = {
  model: z.string('must name a model of /v1/models'),
  n: count(MOST_SAMPLES).nullish(),
  temperature: z.number().min(0).max(1e3).nullish(),
  top_p: z.number().gt(0).max(1).nullish(),
  top_k: z.int().min(-1).nullish(),
  min_p: z.number().min(0).max(1).nullish(),
  repetition_penalty: z.number().gt(0).nullish(),
  presence_penalty: zero.nullish(),
  frequency_penalty: zero.nullish(),
  seed: wholeNumber.nullish(),
  max_tokens: count(1e9).nullish(),
  stop: texts.nullish(),
  stop_token_ids: z.array(tokenId).nullish(),
  ignore_eos: z.boolean().nullish(),
  skip_special_tokens: z.boolean().nullish(),
  return_token_ids: z.boolean().nullish(),
  stream: z.boolean().nullish(),
  stream_options: z
    .strictObject({
      include_usage: z.boolean().nullish(),
      continuous_usage_stats: z.literal(false).nullish(),
    })
    .nullish(),
  request_id: z.string().max(256).nullish(),
  cache_salt: ignored,
  user: ignored,
  store: ignored,
  metadata: ignored,
  safety_identifier: ignored,
  prompt_cache_key: ignored,
  service_tier: ignored,
};

const MESSAGE = z.strictObject({
  role: z.enum(['system', 'developer', 'user', 'assistant']),
  content: z.union(
    [z.string(), z.array(z.strictObject({ type: z.literal('text'), text: z.string() }))],
    'must be a text, or a list of {"type": "text", "text": ...}',
  ),
  reasoning_content: z.string().nullish(),
  refusal: z.null().optional(),
  name: ignored,
});

const CHAT = z.strictObject({
  ...COMMON,
  messages: z.array(MESSAGE).min(1),
  max_completion_tokens: count(1e9).nullish(),
  logprobs: z.boolean().nullish(),
  top_logprobs: z.literal(0, 'must be 0: only the log-prob of the token itself is given').nullish(),
  chat_template_kwargs: z.strictObject({ enable_thinking: z.boolean().nullish() }).nullish(),
});

const ids = z.array(tokenId).min(1);
const COMPLETION = z.strictObject({
  ...COMMON,
  prompt: z.union(
    [z.string(), ids, z.array(z.string()).min(1).max(MOST_PROMPTS), z.array(ids).min(1).max(MOST_PROMPTS)],
    'must be a text, a list of token ids, or a list of either',
  ),
  logprobs: z.literal(0, 'must be 0: only the log-prob of the token itself is given').nullish(),
});

/** Fields that ask for more than is here, and what to say of them. Empty ones ask for nothing. */
const NOT_HERE: ReadonlyMap<string, string> = new Map([
  ['tools', 'tools are not called here; leave it out'],
  ['functions', 'functions are not called here; leave it out'],
  ['response_format', 'answers are plain text here; leave it out'],
  ['logit_bias', 'logits are not changed here; leave it out'],
  ['echo', 'prompts are not repeated here; leave it out'],
  ['suffix', 'nothing can follow an answer here; leave it out'],
  ['best_of', 'answers are not ranked here; use n'],
]);
/** Values that ask for nothing. */
const IDLE: ReadonlyMap<string, readonly unknown[]> = new Map<string, readonly unknown[]>([
  ['tool_choice', ['none', 'auto']],
  ['parallel_tool_calls', [true, false]],
  ['echo', [false]],
  ['best_of', [1]],
]);

const isEmpty = (value: unknown): boolean =>
  value === null || value === undefined || (typeof value === 'object' && Object.keys(value).length === 0);

/** Whether a field that is not computed here asks for something all the same. */
function asks(name: string, value: unknown): boolean {
  const plain = name === 'response_format' && isRecord(value) && value['type'] === 'text';
  return !plain && !isEmpty(value) && IDLE.get(name)?.includes(value) !== true;
}

/** Without what is not computed here. @throws ApiError if it asks for something */
function computed(body: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(body).filter(([name, value]) => {
      if (!NOT_HERE.has(name) && !IDLE.has(name)) return true;
      if (!asks(name, value)) return false;
      const why = NOT_HERE.get(name) ?? 'tools are not called here; leave it out';
      throw new ApiError(400, `${name}: ${why}.`, name, 'unsupported');
    }),
  );
}

function checked<Schema extends z.ZodObject>(schema: Schema, body: unknown): z.output<Schema> {
  if (!isRecord(body)) throw new ApiError(400, 'The body must be a JSON object.');
  const parsed = schema.safeParse(computed(body));
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0]!;
  const path = issue.path.map(String);
  if (issue.code === 'unrecognized_keys') {
    const name = issue.keys[0]!;
    const known = path.length === 0 ? didYouMean(name, Object.keys(schema.shape)) : '';
    const where = [...path, name].join('.');
    throw new ApiError(
      400,
      `${where.slice(0, 100)} is not a field of this API${known}.`,
      where,
      'unknown_field',
    );
  }
  const param = path.join('.');
  const value = path.reduce<unknown>((at, key) => (at as Record<string, unknown> | null)?.[key], body);
  const found = value === undefined ? 'missing' : shownJson(value);
  throw new ApiError(400, `${param} is ${found}: ${issue.message}.`, param, 'invalid_value');
}

type Common = z.output<z.ZodObject<typeof COMMON>>;

/** What both kinds of requests want of the model, under the names of `ChatModel.ask`. */
export interface Wanted {
  weights: string;
  samples: number;
  maxNewTokens: number | undefined;
  seed: number | undefined;
  sampling: { temperature?: number; topP?: number; topK?: number; minP?: number; repetitionPenalty?: number };
  stop: string | readonly string[];
  stopIds: readonly number[];
  ignoreEos: boolean;
  skipSpecial: boolean;
  stream: boolean;
  includeUsage: boolean;
  logprobs: boolean;
  tokenIds: boolean;
  requestId: string | undefined;
}

function samplingOf({ temperature, top_p, top_k, min_p, repetition_penalty }: Common): Wanted['sampling'] {
  const given = {
    temperature,
    topP: top_p,
    topK: top_k === -1 ? 0 : top_k,
    minP: min_p,
    repetitionPenalty: repetition_penalty,
  };
  return Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== null && value !== undefined),
  );
}

function wanted(body: Common, logprobs: boolean, maxNewTokens: number | null | undefined): Wanted {
  return {
    weights: body.model,
    samples: body.n ?? 1,
    maxNewTokens: maxNewTokens ?? undefined,
    seed: body.seed ?? undefined,
    sampling: samplingOf(body),
    stop: body.stop ?? [],
    stopIds: body.stop_token_ids ?? [],
    ignoreEos: body.ignore_eos ?? false,
    skipSpecial: body.skip_special_tokens ?? true,
    stream: body.stream ?? false,
    includeUsage: body.stream_options?.include_usage ?? false,
    logprobs,
    tokenIds: body.return_token_ids ?? false,
    requestId: body.request_id ?? undefined,
  };
}

export interface WantedChat extends Wanted {
  messages: ChatMessage[];
  enableThinking: boolean;
}

/** @throws ApiError */
export function readChat(given: unknown): WantedChat {
  const body = checked(CHAT, given);
  const messages = body.messages.map(({ role, content, reasoning_content: thinking }): ChatMessage => ({
    role: role === 'developer' ? 'system' : role,
    content: typeof content === 'string' ? content : content.map(({ text }) => text).join(''),
    // Templates that show earlier thinking look for it under this name.
    ...(thinking !== null && thinking !== undefined && { reasoning_content: thinking }),
  }));
  return {
    ...wanted(body, body.logprobs ?? false, body.max_completion_tokens ?? body.max_tokens),
    messages,
    enableThinking: body.chat_template_kwargs?.enable_thinking ?? true,
  };
}

/** OpenAI's default. */
const COMPLETION_TOKENS = 16;

export interface WantedCompletion extends Wanted {
  prompts: (string | Int32Array)[];
}

/** @throws ApiError */
export function readCompletion(given: unknown): WantedCompletion {
  const body = checked(COMPLETION, given);
  const { prompt } = body;
  const list = typeof prompt === 'string' || typeof prompt[0] === 'number' ? [prompt] : prompt;
  const logprobs = (body.logprobs ?? null) !== null;
  return {
    ...wanted(body, logprobs, body.max_tokens ?? COMPLETION_TOKENS),
    prompts: (list as (string | number[])[]).map((one) =>
      typeof one === 'string' ? one : Int32Array.from(one),
    ),
  };
}

const LOAD = z.strictObject({
  lora_name: z.string().min(1).max(256),
  lora_path: z.string().min(1),
  load_inplace: z.literal(false, 'must be false: give a new version a new name').nullish(),
});
const UNLOAD = z.strictObject({ lora_name: z.string().min(1), lora_int_id: ignored });

/** @throws ApiError */
export const readLoad = (body: unknown) => checked(LOAD, body);
export const readUnload = (body: unknown) => checked(UNLOAD, body);
