/**
 * What is asked of a server and what it may answer, in the form of vLLM's `/v1/completions`. Every field that has an
 * influence is sent: what is left out comes from the server's defaults, or from the model's generation_config.json.
 * https://docs.vllm.ai/en/stable/serving/openai_compatible_server
 */
import { z } from 'zod';
import { shownValue } from '../../base/border';
import { isRecord } from '../../base/json';
import { streamSeed } from '../../base/rng';
import type { SampledCompletion, SamplePrompt } from '../../sampling';

/** One completion that is wanted. */
export interface Wanted {
  /** Index of its prompt in the list given to the sampler. */
  prompt: number;
  sample: number;
  promptIds: Int32Array;
  maxNewTokens: number;
  seed: number;
  temperature: number;
  stopIds: Int32Array;
}

const MASK53 = (1n << 53n) - 1n;

/**
 * The seed of one completion. A request asks for one completion only, so that one which fails is made again alone; JSON
 * carries whole numbers of up to 53 bits, and vLLM takes an int64.
 */
export const serverSeed = (seed: bigint, sample: number): number =>
  Number(streamSeed(seed, 'external sampler', sample) & MASK53);

/** The completions that `prompts` ask for, prompt by prompt. */
export const wantedOf = (
  prompts: readonly SamplePrompt[],
  temperature: number,
  stopIds: Int32Array,
): Wanted[] =>
  prompts.flatMap(({ ids: promptIds, firstSample, numSamples, seed, maxNewTokens }, prompt) =>
    Array.from({ length: numSamples }, (_, i): Wanted => {
      const sample = firstSample + i;
      return {
        ...{ prompt, sample, promptIds, maxNewTokens, temperature, stopIds },
        seed: serverSeed(seed, sample),
      };
    }),
  );

/**
 * The body of a request. vLLM does not tell adapters of one name apart in its prefix cache, so each version has a name
 * of its own, and the salt says so again.
 * @param model name of an adapter, or of the server's model
 */
export const bodyOf = (
  { promptIds, maxNewTokens, seed, temperature, stopIds }: Wanted,
  model: string,
  requestId: string,
) => ({
  model,
  prompt: [...promptIds],
  n: 1,
  seed,
  temperature,
  top_p: 1,
  top_k: 0,
  min_p: 0,
  repetition_penalty: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
  max_tokens: maxNewTokens,
  stop_token_ids: [...stopIds],
  // The model's own end-of-text ids are among the stop ids if they are meant to end a completion.
  ignore_eos: true,
  skip_special_tokens: true,
  logprobs: 0,
  return_token_ids: true,
  cache_salt: model,
  request_id: requestId,
  stream: false,
});

const ANSWER = z.looseObject({
  model: z.string(),
  choices: z.array(
    z.looseObject({
      finish_reason: z.string().nullable(),
      token_ids: z.array(z.number()).nullish(),
      prompt_token_ids: z.array(z.number()).nullish(),
      logprobs: z.looseObject({ token_logprobs: z.array(z.number().nullable()) }).nullish(),
    }),
  ),
  usage: z.looseObject({ completion_tokens: z.number(), prompt_tokens: z.number() }),
});

/** What was sampled, as the server says. */
export type Answered = Pick<SampledCompletion, 'ids' | 'logprobs'> & { finish: 'stop' | 'length' };

const sameIds = (a: readonly number[], b: Int32Array): boolean =>
  a.length === b.length && a.every((id, i) => id === b[i]);

/** The fault of ids and log-probs, or null. */
function faultOfTokens(
  ids: readonly number[],
  logprobs: readonly (number | null)[],
  { maxNewTokens }: Wanted,
  vocabSize: number,
): string | null {
  if (ids.length === 0) return 'it has no token ids';
  if (ids.length > maxNewTokens) return `it has ${ids.length} token ids, and max_tokens was ${maxNewTokens}`;
  const bad = ids.find((id) => !Number.isInteger(id) || id < 0 || id >= vocabSize);
  if (bad !== undefined) return `it has the token id ${bad}, and the vocabulary has ${vocabSize} tokens`;
  if (logprobs.length !== ids.length)
    return `it has ${logprobs.length} log-probs for ${ids.length} token ids`;
  // vLLM writes -9999 where a log-prob is minus infinity, which no drawn token has.
  const wrong = logprobs.findIndex((value) => value === null || !(value <= 0) || value <= -9999);
  return wrong < 0 ? null : `its log-prob of token ${wrong} is ${logprobs[wrong]}`;
}

/** The fault of how it ends, or null. A server that is paused gives parts of completions, as `abort`. */
function faultOfEnd(
  ids: readonly number[],
  finish: string | null,
  { maxNewTokens, stopIds }: Wanted,
): string | null {
  const stops = stopIds.includes(ids.at(-1)!);
  if (finish === 'stop')
    return stops ? null : `its finish_reason is "stop", and its last id ${ids.at(-1)} is no stop id`;
  if (finish !== 'length') return `its finish_reason is ${shownValue(finish)}, so it is not whole`;
  if (ids.length === maxNewTokens) return null;
  return `its finish_reason is "length" after ${ids.length} of ${maxNewTokens} tokens`;
}

/**
 * Reads the answer to `wanted`.
 * @returns what is wrong with it, in half a sentence, if something is
 */
export function readAnswer(
  given: unknown,
  wanted: Wanted,
  model: string,
  vocabSize: number,
): Answered | { fault: string } {
  const parsed = ANSWER.safeParse(given);
  if (!parsed.success) {
    const { path, message } = parsed.error.issues[0]!;
    const found = isRecord(given) ? `${path.join('.')}: ${message}` : `it is ${shownValue(given)}`;
    return { fault: `it is no answer of /v1/completions (${found})` };
  }
  const { choices, usage, model: named } = parsed.data;
  if (named !== model)
    return { fault: `it comes from the model ${shownValue(named)}, not ${shownValue(model)}` };
  if (choices.length !== 1) return { fault: `it has ${choices.length} choices, and one was asked for` };
  const { token_ids: ids, prompt_token_ids: promptIds, logprobs, finish_reason: finish } = choices[0]!;
  if (!ids || !promptIds) return { fault: 'it has no token ids: vLLM gives them from version 0.10.2 on' };
  if (!sameIds(promptIds, wanted.promptIds))
    return { fault: 'its prompt_token_ids are not those of the prompt' };
  const values = logprobs?.token_logprobs ?? [];
  const fault = faultOfTokens(ids, values, wanted, vocabSize) ?? faultOfEnd(ids, finish, wanted);
  if (fault !== null) return { fault };
  if (usage.completion_tokens !== ids.length)
    return { fault: `its usage counts ${usage.completion_tokens} tokens, and it has ${ids.length}` };
  // A stop id may be the last that max_tokens allows.
  const stopped = wanted.stopIds.includes(ids.at(-1)!);
  return {
    ids: Int32Array.from(ids),
    logprobs: Float64Array.from(values as number[]),
    finish: stopped ? 'stop' : 'length',
  };
}

const MODELS = z.looseObject({
  data: z.array(
    z.looseObject({
      id: z.string(),
      root: z.string().nullish(),
      parent: z.string().nullish(),
      max_model_len: z.number().int().positive().nullish(),
    }),
  ),
});

/** The model that a server has loaded. */
export interface ServedModel {
  /** To be named in requests. */
  name: string;
  /** Most positions of a request; null: the server does not say. */
  maxModelLen: number | null;
}

/** Reads `/v1/models`; null: it is no list of models, or an empty one. */
export function readModels(given: unknown): ServedModel | null {
  const parsed = MODELS.safeParse(given);
  const base = parsed.data?.data.find(({ parent }) => parent === null || parent === undefined);
  return base === undefined ? null : { name: base.id, maxModelLen: base.max_model_len ?? null };
}

/** The sentence of a refusal: OpenAI's, vLLM's or FastAPI's form, else the text. */
export function refusalText(body: string): string {
  let found: unknown = body;
  try {
    const parsed: unknown = JSON.parse(body);
    if (isRecord(parsed)) {
      const { error, message, detail } = parsed;
      found = (isRecord(error) ? error['message'] : error) ?? message ?? detail ?? body;
    }
  } catch {
    // Not JSON: shown as it is.
  }
  const text = (typeof found === 'string' ? found : JSON.stringify(found)).replace(/\s+/g, ' ').trim();
  return text.length > 300 ? `${text.slice(0, 297)}...` : text;
}
