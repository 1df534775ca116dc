/** What is sent to a server, against the fields that vLLM's own schema lists. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { bodyOf, readModels, refusalText, serverSeed, wantedOf } from '../../src/samplers/vllm/wire';
import { serverAddress } from '../../src/samplers/vllm/server';

const { fields } = JSON.parse(readFileSync(join(__dirname, '../fixtures/vllm/fields.json'), 'utf8')) as {
  fields: Record<string, string[]>;
};

const prompt = {
  ids: Int32Array.of(5, 6, 7),
  thinkOpened: false,
  firstSample: 3,
  numSamples: 2,
  seed: 2n ** 63n + 12345n,
  maxNewTokens: 9,
};

test('every field that is sent is one of vLLM’s', () => {
  const [wanted] = wantedOf([prompt], 0.7, Int32Array.of(2));
  const body = bodyOf(wanted!, 'acoer-0-v1', 'id');
  expect(Object.keys(body).filter((name) => !fields['/v1/completions']!.includes(name))).toEqual([]);
  expect(fields['/v1/load_lora_adapter']).toEqual(expect.arrayContaining(['lora_name', 'lora_path']));
  expect(fields['/v1/unload_lora_adapter']).toContain('lora_name');
});

test('fields of vLLM that change what is sampled are sent, so that no default of a server gets in', () => {
  const [wanted] = wantedOf([prompt], 0.7, Int32Array.of(2));
  const sent = Object.keys(bodyOf(wanted!, 'acoer-0-v1', 'id'));
  const influence = [
    ...['n', 'seed', 'temperature', 'top_p', 'top_k', 'min_p', 'repetition_penalty', 'presence_penalty'],
    ...['frequency_penalty', 'max_tokens', 'stop_token_ids', 'ignore_eos', 'logprobs', 'cache_salt'],
  ];
  expect(influence.filter((name) => !fields['/v1/completions']!.includes(name))).toEqual([]);
  expect(influence.filter((name) => !sent.includes(name))).toEqual([]);
});

test('seeds are whole numbers that JSON carries, one for each sample', () => {
  const all = wantedOf([prompt, { ...prompt, seed: prompt.seed + 1n }], 1, new Int32Array(0));
  expect(all.map(({ prompt: place, sample }) => [place, sample])).toEqual([
    ...[[0, 3], [0, 4], [1, 3], [1, 4]],
  ]); // prettier-ignore
  expect(new Set(all.map(({ seed }) => seed)).size).toBe(4);
  for (const { seed } of all) expect(Number.isSafeInteger(seed)).toBe(true);
  expect(serverSeed(prompt.seed, 3)).toBe(all[0]!.seed);
});

test('an address with or without the /v1 of OpenAI’s clients', () => {
  for (const url of ['http://a:1', 'http://a:1/', 'http://a:1/v1', 'http://a:1/v1/'])
    expect(serverAddress(url)).toBe('http://a:1');
});

test('the base model among adapters', () => {
  const adapter = { id: 'x', parent: 'base', root: '/x', max_model_len: null };
  expect(
    readModels({ data: [adapter, { id: 'base', root: 'org/m', parent: null, max_model_len: 512 }] }),
  ).toEqual({
    name: 'base',
    maxModelLen: 512,
  });
  for (const none of [null, {}, { data: [] }, { data: [adapter] }, '<html>'])
    expect(readModels(none)).toBeNull();
});

test.each([
  ['{"error":{"message":"a\\n b","code":400}}', 'a b'],
  ['{"error":"Unauthorized"}', 'Unauthorized'],
  ['{"detail":"Not Found"}', 'Not Found'],
  ['{"detail":[{"loc":["body"],"msg":"m"}]}', '[{"loc":["body"],"msg":"m"}]'],
  ['Bad Gateway', 'Bad Gateway'],
  ['x'.repeat(400), `${'x'.repeat(297)}...`],
])('the sentence in %s', (body, sentence) => expect(refusalText(body)).toBe(sentence));
