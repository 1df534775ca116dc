/** Talking to a run: the answers are those of the engine, streamed, by name, by many at once. */
import { join } from 'node:path';
import { openModel, type ChatModel } from '../../src/chat';
import { createEngine } from '../../src/engine/engine';
import { streamSeed } from '../../src/base/rng';
import { TINY_MODEL } from '../../src/models/resolve';
import { loadTokenizer } from '../../src/tokenizer';
import { failureOf } from '../helpers/engine-calls';
import { tinyRun } from '../helpers/tiny-run';

let run: Awaited<ReturnType<typeof tinyRun>>;
let model: ChatModel;
beforeAll(async () => {
  run = await tinyRun();
  model = await openModel(run.path, { device: 'cpu', threads: 1, idleMs: 50 });
}, 120_000);
afterAll(async () => {
  await model.dispose();
  run.remove();
});

const question = (text: string) => [{ role: 'user' as const, content: text }];
const QUESTIONS = ['6-3-4 mod 10?', '2+3 mod 7?', '9-1-1+4 mod 5?', '8+8+8 mod 9?'];

/** What the engine alone says. */
async function alone(adapter: string | null, text: string, seed: number) {
  const tokenizer = await loadTokenizer(TINY_MODEL);
  await using engine = await createEngine({ device: 'cpu', threads: 1 });
  const loaded = await engine.loadModel(TINY_MODEL);
  const policy = adapter === null ? null : await loaded.loadAdapter(adapter);
  const prompt = tokenizer.renderChat(question(text), { enableThinking: true, addGenerationPrompt: true });
  const { sequences } = await loaded.generate([
    {
      promptIds: tokenizer.encode(prompt),
      seed: streamSeed(seed, 'generate', 0),
      maxNewTokens: 60,
      stopIds: Int32Array.from(tokenizer.eosIds),
      policy,
    },
  ]);
  return sequences[0]!;
}

test('final, the checkpoints and the model itself, by name', () => {
  expect(model.names).toEqual(['base', 'final', 'step-2', 'step-4']);
  expect(model.newest).toBe('final');
});

test('many at once get the ids and log-probs that each gets alone', async () => {
  const folders: Record<string, string | null> = {
    base: null,
    final: join(run.path, 'final'),
    'step-2': join(run.path, 'checkpoints', 'step-000002'),
  };
  const asked = Object.keys(folders).flatMap((weights) =>
    QUESTIONS.map((text, seed) => ({ weights, text, seed })),
  );
  const answers = await Promise.all(
    asked.map(({ weights, text, seed }) =>
      model.chat(question(text), { weights, seed, maxNewTokens: 60 }).result(),
    ),
  );
  for (const [i, { weights, text, seed }] of asked.entries()) {
    const { ids, logprobs } = await alone(folders[weights]!, text, seed);
    expect(answers[i]!.ids).toEqual([...ids]);
    expect(answers[i]!.logprobs).toEqual([...logprobs]);
  }
  const said = (name: string) =>
    answers.filter((_, i) => asked[i]!.weights === name).map(({ ids }) => ids.join());
  expect(said('base')).not.toEqual(said('final'));
});

test('with speculation the answers are the same', async () => {
  await using faster = await openModel(run.path, { device: 'cpu', threads: 1, numSpeculativeTokens: 4 });
  for (const [seed, text] of QUESTIONS.entries()) {
    const options = { seed, maxNewTokens: 60 };
    const answer = await faster.chat(question(text), options).result();
    expect(answer).toEqual(await model.chat(question(text), options).result());
  }
});

test('pieces add up to the answer, with thinking apart', async () => {
  const answer = model.chat(question(QUESTIONS[0]!), { seed: 1, maxNewTokens: 60 });
  const all = { text: '', thinking: '', ids: [] as number[], logprobs: [] as number[] };
  for await (const { text, thinking, ids, logprobs } of answer) {
    all.text += text;
    all.thinking += thinking;
    all.ids.push(...ids);
    all.logprobs.push(...logprobs);
  }
  const { text, thinking, ids, logprobs } = await answer.result();
  expect(all).toEqual({ text, thinking, ids, logprobs });
  const whole = model.tokenizer.decode(ids, { skipSpecial: true });
  expect(whole).toContain(thinking);
  expect(whole.endsWith(text)).toBe(true);
});

test('a completion goes on from a text, up to a stop string', async () => {
  const prompt = model.tokenizer.renderChat(question(QUESTIONS[1]!), {
    enableThinking: true,
    addGenerationPrompt: true,
  });
  const whole = await model.complete(prompt, { seed: 3, maxNewTokens: 40 }).result();
  const stop = whole.text.slice(3, 5);
  const cut = await model.complete(prompt, { seed: 3, maxNewTokens: 40, stop }).result();
  expect(cut).toMatchObject({ text: whole.text.slice(0, whole.text.indexOf(stop)), finish: 'stop', stop });
  expect(whole.ids.slice(0, cut.ids.length)).toEqual(cut.ids);
});

test('a signal, or not reading on, cancels; the others go on', async () => {
  const others = QUESTIONS.map((text, seed) =>
    model.chat(question(text), { seed, maxNewTokens: 60 }).result(),
  );
  const controller = new AbortController();
  const cancelled = model
    .chat(question('1+1 mod 3?'), { temperature: 1, signal: controller.signal })
    .result();
  controller.abort();
  expect(await failureOf(() => cancelled)).toMatchObject({ code: 'CANCELLED' });
  const left = model.chat(question('1+1 mod 3?'), { temperature: 5, maxNewTokens: 400 });
  for await (const _ of left) break;
  await left.result().catch(() => undefined);
  for (const { ids } of await Promise.all(others)) expect(ids.length).toBeGreaterThan(0);
});

test('adapters come and go by name, while others are asked', async () => {
  const before = model.chat(question(QUESTIONS[2]!), { seed: 2, maxNewTokens: 60 }).result();
  await model.addAdapter('mine', join(run.path, 'final'));
  const mine = await model
    .chat(question(QUESTIONS[2]!), { weights: 'mine', seed: 2, maxNewTokens: 60 })
    .result();
  expect(mine.ids).toEqual((await before).ids);
  await expect(model.addAdapter('mine', run.path)).rejects.toMatchObject({ code: 'BAD_INPUT' });
  await model.removeAdapter('mine');
  expect(() => model.chat(question('1'), { weights: 'mine' })).not.toThrow();
  const refused = await failureOf(() => model.chat(question('1'), { weights: 'mine' }).result());
  expect(refused).toMatchObject({
    code: 'BAD_INPUT',
    message: expect.stringContaining('base, final, step-2'),
  });
});

test('what cannot be asked is refused in a sentence', async () => {
  expect(() => model.complete('')).toThrow(/prompt is empty/);
  expect(() => model.chat(question('1'), { maxNewTokens: 1e6 })).toThrow(/room for/);
  await expect(openModel(join(run.path, 'final'))).rejects.toThrow(/is an adapter/);
  await expect(openModel([run.path, TINY_MODEL])).rejects.toThrow(/of one model/);
  await expect(openModel('tiny', { maxModelLen: 1e6 })).rejects.toThrow(/positions/);
});
