/** OpenAI's own client against the server: the same ids as the engine gives, streams, log-probs, adapters by name. */
import OpenAI from 'openai';
import { openModel, type ChatModel } from '../../src/chat';
import { type ModelServer, startServer } from '../../src/serve';
import { tinyRun } from '../helpers/tiny-run';

const KEY = 'a-key-of-the-test';
let run: Awaited<ReturnType<typeof tinyRun>>;
let model: ChatModel;
let server: ModelServer;
let client: OpenAI;
beforeAll(async () => {
  run = await tinyRun();
  model = await openModel(run.path, { device: 'cpu', threads: 1, idleMs: Infinity });
  server = await startServer(model, { port: 0, key: KEY });
  client = new OpenAI({ apiKey: KEY, baseURL: server.address, maxRetries: 0 });
}, 120_000);
afterAll(async () => {
  await server.close();
  await model.dispose();
  run.remove();
});

const messages = (content: string) => [{ role: 'user' as const, content }];
const QUESTIONS = Array.from(
  { length: 64 },
  (_, i) => `${(i % 9) + 1}+${i % 7}-${i % 5} mod ${(i % 8) + 2}?`,
);

/** vLLM's fields, which the client passes on. */
interface WithIds {
  token_ids: number[];
  message: { reasoning_content: string | null };
}

test('models in order: base, final, checkpoints', async () => {
  const { data } = await client.models.list();
  expect(data.map(({ id }) => id)).toEqual(['base', 'final', 'step-2', 'step-4']);
  expect(await client.models.retrieve('step-2')).toMatchObject({ id: 'step-2', parent: 'base' });
});

test('64 requests at once, to several models: ids and log-probs of each are those it gets alone', async () => {
  const names = model.names;
  const answers = await Promise.all(
    QUESTIONS.map((content, i) =>
      client.chat.completions.create({
        ...{
          model: names[i % names.length]!,
          messages: messages(content),
          seed: i,
          max_tokens: 60,
          logprobs: true,
        },
        ...({ return_token_ids: true } as object),
      }),
    ),
  );
  for (const [i, { choices, usage, model: name }] of answers.entries()) {
    const weights = names[i % names.length]!;
    const alone = await model.chat(messages(QUESTIONS[i]!), { weights, seed: i, maxNewTokens: 60 }).result();
    const [choice] = choices;
    const { token_ids: ids, message } = choice as unknown as WithIds;
    expect(name).toBe(weights);
    expect(ids).toEqual(alone.ids);
    expect(choice!.logprobs!.content!.map(({ logprob }) => logprob)).toEqual(alone.logprobs);
    expect(message).toMatchObject({ content: alone.text, reasoning_content: alone.thinking || null });
    expect(choice!.finish_reason).toBe(alone.finish);
    expect(usage!.completion_tokens).toBe(ids.length);
  }
});

test('a stream adds up to the answer, and ends with its usage', async () => {
  const asked = { model: 'final', messages: messages(QUESTIONS[0]!), seed: 5, max_tokens: 60 };
  const whole = await client.chat.completions.create(asked);
  const stream = await client.chat.completions.create({
    ...{ ...asked, stream: true, stream_options: { include_usage: true }, logprobs: true },
  });
  let [content, thinking, tokens, finish] = ['', '', 0, null as string | null];
  let usage;
  for await (const chunk of stream) {
    const [choice] = chunk.choices;
    usage = chunk.usage ?? usage;
    if (choice === undefined) continue;
    const delta = choice.delta as { content?: string; reasoning_content?: string };
    content += delta.content ?? '';
    thinking += delta.reasoning_content ?? '';
    tokens += choice.logprobs?.content?.length ?? 0;
    finish = choice.finish_reason ?? finish;
  }
  const { message, finish_reason: wanted } = whole.choices[0]! as unknown as OpenAI.ChatCompletion.Choice &
    WithIds;
  expect({ content, thinking, finish }).toEqual({
    content: message.content,
    thinking: message.reasoning_content ?? '',
    finish: wanted,
  });
  expect(usage).toEqual(whole.usage);
  expect(tokens).toBe(whole.usage!.completion_tokens);
});

test('completions: texts and ids as prompts, several samples, log-probs, stop strings', async () => {
  const text = model.tokenizer.renderChat(messages(QUESTIONS[3]!), {
    enableThinking: true,
    addGenerationPrompt: true,
  });
  const ids = [...model.tokenizer.encode(text)];
  const asked = { model: 'final', max_tokens: 30, seed: 9, n: 2, logprobs: 0, temperature: 3 };
  const [ofText, ofIds, ofBoth] = await Promise.all([
    client.completions.create({ ...asked, prompt: text }),
    client.completions.create({ ...asked, prompt: ids }),
    client.completions.create({ ...asked, prompt: [text, text] }),
  ]);
  const texts = ofText.choices.map((choice) => choice.text);
  expect(new Set(texts).size).toBe(2);
  expect(ofIds.choices.map((choice) => choice.text)).toEqual(texts);
  expect(ofBoth.choices.map(({ index, text: own }) => [index, own])).toEqual([
    [0, texts[0]],
    [1, texts[1]],
    [2, texts[0]],
    [3, texts[1]],
  ]);
  const { tokens, token_logprobs: logprobs, text_offset: offsets } = ofText.choices[0]!.logprobs!;
  expect(logprobs).toHaveLength(tokens!.length);
  expect(offsets![2]).toBe(tokens!.slice(0, 2).join('').length);
  const stop = texts[0]!.slice(4, 6);
  const cut = await client.completions.create({ ...asked, prompt: text, stop });
  expect(cut.choices[0]).toMatchObject({
    text: texts[0]!.slice(0, texts[0]!.indexOf(stop)),
    finish_reason: 'stop',
  });
});

test('a client that goes away ends its answer; nothing is left', async () => {
  const asked = { model: 'base', messages: messages('1+1 mod 3?'), temperature: 50, max_tokens: 400 };
  for (let i = 0; i < 20; i++) {
    const stream = await client.chat.completions.create({ ...asked, stream: true });
    for await (const _ of stream) break;
    stream.controller.abort();
  }
  const answer = await client.chat.completions.create({ ...asked, temperature: 0, max_tokens: 5 });
  expect(answer.usage!.completion_tokens).toBeLessThanOrEqual(5);
});

test('errors have the form that the client knows', async () => {
  const wrongKey = new OpenAI({ apiKey: 'another-key', baseURL: server.address, maxRetries: 0 });
  await expect(wrongKey.models.list()).rejects.toMatchObject({ status: 401, code: 'invalid_api_key' });
  const asked = { model: 'final', messages: messages('1+1 mod 3?') };
  const refused = async (more: object) =>
    client.chat.completions.create({ ...asked, ...more }).catch((error: unknown) => error);
  expect(await refused({ model: 'other' })).toMatchObject({ status: 404, code: 'model_not_found' });
  expect(await refused({ max_tokens: 1e6 })).toMatchObject({ status: 400 });
  expect(await refused({ top_logprobs: 5 })).toMatchObject({ status: 400, param: 'top_logprobs' });
  expect(await refused({ tools: [{ type: 'function' }] })).toMatchObject({ status: 400, param: 'tools' });
  expect(await refused({ temprature: 1 })).toMatchObject({
    status: 400,
    message: expect.stringContaining('temperature'),
  });
});
