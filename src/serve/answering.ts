/** The routes that ask the model: /v1/chat/completions and /v1/completions. */
import { randomBytes } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import type { Answer, Answers, ChatModel, TokenPrompt } from '../chat';
import { sum } from '../base/statistics';
import { sendJson } from './body';
import { ApiError } from './errors';
import { EventStream } from './event-stream';
import {
  chatBody,
  chatChunk,
  completionBody,
  completionChunk,
  deltaOf,
  type Reply,
  type Usage,
  usageChunk,
} from './replies';
import { readChat, readCompletion, type Wanted } from './wire';

export interface Asked {
  model: ChatModel;
  body: unknown;
  response: ServerResponse;
  /** Fires when the caller has gone, or the server ends. */
  signal: AbortSignal;
}

/** The prompts of a request, and the answers to each. */
interface Asking {
  reply: Reply;
  prompts: TokenPrompt[];
  answers: Answers[];
}

function checkName(model: ChatModel, name: string): void {
  if (model.names.includes(name)) return;
  const message = `There is no model ${JSON.stringify(name.slice(0, 100))} here; there are ${model.names.join(', ')}.`;
  throw new ApiError(404, message, 'model', 'model_not_found');
}

const replyTo = (model: ChatModel, wanted: Wanted, prefix: string): Reply => ({
  id: `${prefix}-${wanted.requestId ?? randomBytes(12).toString('hex')}`,
  createdSeconds: Math.floor(Date.now() / 1000),
  wanted,
  tokenizer: model.tokenizer,
});

function askAll(
  model: ChatModel,
  wanted: Wanted,
  prompts: readonly TokenPrompt[],
  { signal, split }: { signal: AbortSignal; split: boolean },
): Answers[] {
  const { weights, samples, maxNewTokens, seed, sampling, stop, stopIds, ignoreEos, skipSpecial } = wanted;
  const options = {
    ...{ weights, samples, maxNewTokens, seed, stop, stopIds, ignoreEos, skipSpecial, ...sampling },
    ...{ streams: wanted.stream, signal, split },
  };
  return prompts.map((prompt) => model.ask(prompt, options));
}

function usageOf(prompts: readonly TokenPrompt[], answers: readonly Answer[]): Usage {
  return {
    promptTokens: sum(prompts.map(({ ids }) => ids.length)),
    completionTokens: sum(answers.map(({ ids }) => ids.length)),
    thinkingTokens: sum(
      answers.map(({ thinking, thinkingTokens, laterThinkingTokens }) =>
        thinking === '' ? 0 : thinkingTokens + laterThinkingTokens,
      ),
    ),
  };
}

/** Once a stream has begun, an error is an event in it, and [DONE] does not come. */
async function streamed(
  { response, signal }: Asked,
  work: (events: EventStream) => Promise<void>,
): Promise<void> {
  const events = new EventStream(response, signal);
  events.open();
  try {
    await work(events);
    await events.end();
  } catch (error) {
    if (!signal.aborted) throw error;
    response.destroy();
  }
}

export async function answerChat(asked: Asked): Promise<void> {
  const { model, body, response, signal } = asked;
  const wanted = readChat(body);
  checkName(model, wanted.weights);
  const reply = replyTo(model, wanted, 'chatcmpl');
  const prompt = model.chatPrompt(wanted.messages, wanted.enableThinking);
  const [answers] = askAll(model, wanted, [prompt], { signal, split: true }) as [Answers];
  if (!wanted.stream) {
    const all = await answers.result();
    return sendJson(response, 200, chatBody(reply, all, usageOf([prompt], all), prompt.ids));
  }
  await streamed(asked, (events) => streamChat(events, { reply, prompts: [prompt], answers: [answers] }));
}

async function streamChat(events: EventStream, { reply, prompts, answers }: Asking): Promise<void> {
  const { samples, includeUsage } = reply.wanted;
  for (let i = 0; i < samples; i++)
    await events.send(chatChunk(reply, i, { role: 'assistant', content: '' }));
  for await (const piece of answers[0]!) {
    const delta = deltaOf(piece);
    const { logprobs, tokenIds } = reply.wanted;
    const tells = Object.keys(delta).length > 0 || ((logprobs || tokenIds) && piece.ids.length > 0);
    if (tells) await events.send(chatChunk(reply, piece.sample, delta, { tokens: piece }));
  }
  const all = await answers[0]!.result();
  for (const { sample, finish, stop } of all)
    await events.send(chatChunk(reply, sample, {}, { finish, stop }));
  if (includeUsage) await events.send(usageChunk(reply, 'chat.completion.chunk', usageOf(prompts, all)));
}

export async function answerCompletion(asked: Asked): Promise<void> {
  const { model, body, response, signal } = asked;
  const wanted = readCompletion(body);
  checkName(model, wanted.weights);
  const reply = replyTo(model, wanted, 'cmpl');
  const prompts = wanted.prompts.map((prompt) => model.textPrompt(prompt));
  const answers = askAll(model, wanted, prompts, { signal, split: false });
  if (!wanted.stream) {
    const all = await Promise.all(answers.map((one) => one.result()));
    const answered = all.map((own, i) => ({ answers: own, promptIds: prompts[i]!.ids }));
    return sendJson(response, 200, completionBody(reply, answered, usageOf(prompts, all.flat())));
  }
  await streamed(asked, (events) => streamCompletion(events, { reply, prompts, answers }));
}

async function streamCompletion(events: EventStream, { reply, prompts, answers }: Asking): Promise<void> {
  const { samples, includeUsage } = reply.wanted;
  const tell = async (prompt: number): Promise<Answer[]> => {
    const offsets = new Array<number>(samples).fill(0);
    const told = new Set<number>();
    for await (const piece of answers[prompt]!) {
      if (piece.ids.length === 0 && piece.text === '') continue;
      const { sample } = piece;
      const promptIds = told.has(sample) ? undefined : prompts[prompt]!.ids;
      told.add(sample);
      const more = { offset: offsets[sample]!, promptIds };
      offsets[sample]! += piece.text.length;
      await events.send(completionChunk(reply, prompt * samples + sample, piece, more));
    }
    const all = await answers[prompt]!.result();
    for (const { sample, finish, stop } of all) {
      const last = { text: '', ids: [], logprobs: [] };
      const more = { offset: offsets[sample]!, finish, stop };
      await events.send(completionChunk(reply, prompt * samples + sample, last, more));
    }
    return all;
  };
  const all = (await Promise.all(prompts.map((_, prompt) => tell(prompt)))).flat();
  if (includeUsage) await events.send(usageChunk(reply, 'text_completion', usageOf(prompts, all)));
}
