/** What the server refuses, and what hostile or hasty callers leave behind: nothing. */
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openModel, type ChatModel } from '../../src/chat';
import { type ModelServer, startServer } from '../../src/serve';
import { tinyRun } from '../helpers/tiny-run';

const KEY = 'a-key-of-the-test';
let run: Awaited<ReturnType<typeof tinyRun>>;
let elsewhere: string;
let model: ChatModel;
let server: ModelServer;
beforeAll(async () => {
  run = await tinyRun();
  elsewhere = mkdtempSync(join(tmpdir(), 'acoer-elsewhere-'));
  symlinkSync(elsewhere, join(run.path, 'link'));
  model = await openModel('tiny', { device: 'cpu', threads: 1, maxSlots: 2, idleMs: Infinity });
  server = await startServer(model, { port: 0, key: KEY, loraRoot: run.path, maxWaiting: 2 });
}, 120_000);
afterAll(async () => {
  await server.close();
  await model.dispose();
  run.remove();
  rmSync(elsewhere, { recursive: true });
});

interface Reply {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
}

function call(
  path: string,
  body?: string | Buffer,
  { headers = {}, method = body === undefined ? 'GET' : 'POST' }: { headers?: object; method?: string } = {},
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const all = { Authorization: `Bearer ${KEY}`, ...headers } as Record<string, string>;
    const sent = httpRequest(
      { host: '127.0.0.1', port: server.port, path, method, headers: all },
      (response) => {
        let text = '';
        response.on('data', (chunk: Buffer) => (text += chunk.toString()));
        response.on('end', () => resolve({ status: response.statusCode!, headers: response.headers, text }));
        response.on('error', reject);
      },
    );
    sent.on('error', reject);
    sent.end(body);
  });
}

const messages = [{ role: 'user', content: '1+1 mod 3?' }];
const chat = (more: object = {}) =>
  call('/v1/chat/completions', JSON.stringify({ model: 'base', messages, max_tokens: 4, ...more }));

test('without the key every path but /health is 401, those that do not exist as well', async () => {
  const without = { headers: { Authorization: '' } };
  expect((await call('/health', undefined, without)).status).toBe(200);
  for (const path of ['/v1/models', '/version', '/nothing', '/v1/models/base', '/'])
    expect((await call(path, undefined, without)).status).toBe(401);
  expect((await call('/v1/chat/completions', '{}', without)).status).toBe(401);
  expect((await call('/v1/models', undefined, { headers: { Authorization: `Bearer ${KEY}x` } })).status).toBe(
    401,
  );
});

test('a name that leads here from a web page is refused, with the key and for /health as well', async () => {
  for (const path of ['/health', '/v1/models'])
    expect((await call(path, undefined, { headers: { Host: 'evil.example' } })).status).toBe(403);
});

test('wrong paths and methods', async () => {
  expect((await call('/v1/embeddings', '{}')).status).toBe(404);
  expect((await call('/v1/chat/completions')).status).toBe(405);
  expect((await call('/v1/models', '{}')).status).toBe(405);
  expect((await call('/v1/models/%ff')).status).toBe(404);
});

const good = { model: 'base', messages, max_tokens: 4 };
const BODIES: [string, string | Buffer][] = [
  ['nothing', ''],
  ['no JSON', '{"model": "base"'],
  ['no UTF-8', Buffer.from([0x22, 0xff, 0xfe, 0x22])],
  ['a list', '[]'],
  ['a number', '7'],
  ['null', 'null'],
  ['deep', '['.repeat(100_000)],
  ...(
    [
      ['no model', { messages }],
      ['model of another type', { ...good, model: 3 }],
      ['no messages', { model: 'base' }],
      ['empty messages', { ...good, messages: [] }],
      ['messages of another type', { ...good, messages: 'hello' }],
      ['another role', { ...good, messages: [{ role: 'tool', content: 'x' }] }],
      ['no content', { ...good, messages: [{ role: 'user' }] }],
      [
        'an image',
        { ...good, messages: [{ role: 'user', content: [{ type: 'image_url', image_url: {} }] }] },
      ],
      ['a field more in a message', { ...good, messages: [{ role: 'user', content: 'x', tool_calls: [] }] }],
      ['unknown field', { ...good, beams: 4 }],
      ['__proto__', JSON.parse('{"model":"base","messages":[],"__proto__":{"a":1}}')],
      ['n 0', { ...good, n: 0 }],
      ['n too large', { ...good, n: 1e9 }],
      ['n of another type', { ...good, n: '2' }],
      ['temperature below 0', { ...good, temperature: -1 }],
      ['temperature of another type', { ...good, temperature: 'hot' }],
      ['top_p 0', { ...good, top_p: 0 }],
      ['top_p above 1', { ...good, top_p: 2 }],
      ['top_k below -1', { ...good, top_k: -2 }],
      ['min_p above 1', { ...good, min_p: 2 }],
      ['repetition_penalty 0', { ...good, repetition_penalty: 0 }],
      ['a penalty', { ...good, frequency_penalty: 0.5 }],
      ['logit_bias', { ...good, logit_bias: { 5: 1 } }],
      ['max_tokens 0', { ...good, max_tokens: 0 }],
      ['max_tokens too large', { ...good, max_tokens: 1e8 }],
      ['max_tokens no whole number', { ...good, max_tokens: 1.5 }],
      ['seed no whole number', { ...good, seed: 0.5 }],
      ['stop of another type', { ...good, stop: 5 }],
      ['many stops', { ...good, stop: Array.from({ length: 99 }, String) }],
      ['stop ids of another type', { ...good, stop_token_ids: ['a'] }],
      ['stop ids outside the vocabulary', { ...good, stop_token_ids: [1e9] }],
      ['log-probs of others', { ...good, logprobs: true, top_logprobs: 3 }],
      ['tools', { ...good, tools: [{ type: 'function' }] }],
      ['JSON wanted', { ...good, response_format: { type: 'json_object' } }],
      ['template arguments', { ...good, chat_template_kwargs: { evil: 1 } }],
      ['stream of another type', { ...good, stream: 'yes' }],
      ['a long prompt', { ...good, messages: [{ role: 'user', content: '1'.repeat(100_000) }] }],
    ] as [string, object][]
  ).map(([name, body]): [string, string] => [name, JSON.stringify(body)]),
];

test.each(BODIES)('a malformed body is 400 in a sentence: %s', async (_, body) => {
  const { status, text } = await call('/v1/chat/completions', body);
  const { error } = JSON.parse(text) as { error: { message: string; type: string } };
  expect({ status, type: error.type }).toEqual({ status: 400, type: 'invalid_request_error' });
  expect(error.message).toMatch(/^.{10,400}\.$/s);
});

test('bodies that are too large or compressed are not read', async () => {
  const large = await call('/v1/chat/completions', Buffer.alloc(5 << 20, 0x20)).catch(
    ({ code }: Error & { code: string }) => code,
  );
  // The server ends before the body does, which the client may notice first.
  expect(['EPIPE', 'ECONNRESET', 413]).toContain(typeof large === 'string' ? large : large.status);
  expect((await call('/v1/completions', 'x', { headers: { 'Content-Encoding': 'gzip' } })).status).toBe(415);
  expect((await chat()).status).toBe(200);
});

test('prompts of ids are checked', async () => {
  const complete = (prompt: unknown) => call('/v1/completions', JSON.stringify({ model: 'base', prompt }));
  for (const prompt of [[], [-1], [1.5], [[]], [1, 'a'], '', [1e9], {}, null])
    expect((await complete(prompt)).status).toBe(400);
  expect((await complete([5, 6])).status).toBe(200);
});

test('where one of several prompts is refused, the others are not answered', async () => {
  const asked = jest.spyOn(model, 'ask');
  try {
    const prompt = [[5, 6], Array.from({ length: 10_000 }, () => 5)];
    const body = JSON.stringify({ model: 'base', prompt, max_tokens: 300, ignore_eos: true });
    expect((await call('/v1/completions', body)).status).toBe(400);
    const [first] = asked.mock.results as { value: ReturnType<ChatModel['ask']> }[];
    await expect(first!.value.result()).rejects.toMatchObject({ code: 'CANCELLED' });
  } finally {
    asked.mockRestore();
  }
});

test('more requests than may wait get 429 and when to ask again', async () => {
  const replies = await Promise.all(
    Array.from({ length: 12 }, () => chat({ temperature: 9, max_tokens: 200, ignore_eos: true })),
  );
  const statuses = replies.map(({ status }) => status);
  expect(statuses.filter((status) => status === 200).length).toBeGreaterThanOrEqual(4);
  const refused = replies.find(({ status }) => status === 429)!;
  expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
  expect((await chat()).status).toBe(200);
});

test('adapters are loaded from their folder only, and unloaded', async () => {
  const load = (lora_path: string, lora_name = 'mine') =>
    call('/v1/load_lora_adapter', JSON.stringify({ lora_name, lora_path }));
  for (const path of [
    '/etc',
    elsewhere,
    join(run.path, 'link'),
    join(run.path, '..'),
    join(run.path, 'none'),
  ])
    expect((await load(path)).status).toBe(404);
  expect((await load(join(run.path, 'completions'))).status).toBe(400);
  const loaded = await load(join(run.path, 'final'));
  expect([loaded.status, loaded.text]).toEqual([200, "Success: LoRA adapter 'mine' added successfully."]);
  expect((await load(join(run.path, 'final'))).status).toBe(400);
  expect((await chat({ model: 'mine' })).status).toBe(200);
  const unload = () => call('/v1/unload_lora_adapter', JSON.stringify({ lora_name: 'mine' }));
  expect((await unload()).status).toBe(200);
  expect((await unload()).status).toBe(404);
  expect((await chat({ model: 'mine' })).status).toBe(404);
});

test('callers that send nothing, half a request or no HTTP keep nobody out', async () => {
  const sockets = Array.from({ length: 200 }, (_, i) => {
    const socket = connect(server.port, '127.0.0.1');
    socket.on('error', () => undefined);
    if (i % 3 === 1) socket.write('POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Le');
    if (i % 3 === 2) socket.write('\x16\x03\x01\x02\x00\x01');
    return socket;
  });
  await Promise.all(
    sockets.map(
      (socket) =>
        new Promise((resolve) => (socket.connecting ? socket.once('connect', resolve) : resolve(null))),
    ),
  );
  expect((await chat()).status).toBe(200);
  for (const socket of sockets) socket.destroy();
});

test('a thousand streams cut off by their readers leave nothing behind', async () => {
  const body = JSON.stringify({ ...good, temperature: 50, max_tokens: 200, stream: true });
  const cutOff = () =>
    new Promise<void>((resolve) => {
      const sent = httpRequest(
        {
          ...{ host: '127.0.0.1', port: server.port, path: '/v1/chat/completions', method: 'POST' },
          headers: { Authorization: `Bearer ${KEY}` },
        },
        (response) => {
          response.on('error', () => undefined);
          response.once('data', () => response.destroy());
          response.once('close', resolve);
        },
      );
      sent.on('error', () => resolve());
      sent.end(body);
    });
  for (let i = 0; i < 250; i++) await Promise.all([cutOff(), cutOff(), cutOff(), cutOff()]);
  // The last four end at their next token; until then they count.
  while ((await chat()).status === 429);
  const replies = await Promise.all([chat(), chat(), chat(), chat()]);
  expect(replies.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
});
