/** Who may read the live page: what the server refuses, and what it says to those it answers. */
import { mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { connect } from 'node:net';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { startWatch, type WatchServer } from '../../src/watch';
import { builtCli } from '../helpers/cli';
import { WatchEvents } from '../helpers/watch-events';
import { watchedFolder, writeRun } from '../helpers/watched-runs';

const outside = watchedFolder();
const root = watchedFolder();
let server: WatchServer;
let token = '';

beforeAll(async () => {
  // The page's own files are bundled by the build.
  builtCli();
  writeRun(join(root, 'one'), { steps: 3 });
  writeRun(join(outside, 'secret'), { steps: 3 });
  writeFileSync(join(outside, 'plain.txt'), 'do not show');
  symlinkSync(join(outside, 'secret'), join(root, 'link'));
  mkdirSync(join(root, 'model'));
  writeFileSync(join(root, 'model', 'config.json'), '{"model_type":"qwen3"}');
  server = await startWatch({ path: root, port: 0 });
  token = new URL(server.address).pathname.split('/')[1]!;
});
afterAll(() => server.close());

interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
}

/** A request with a path that is sent as it is. */
function ask(
  path: string,
  headers: Record<string, string> = {},
  method = 'GET',
  port = server.port,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port, path, method, headers: { Host: 'localhost', ...headers } };
    const sent = httpRequest(options, (response) => {
      let text = '';
      response.on('data', (chunk: Buffer) => (text += chunk.toString()));
      response.on('end', () => resolve({ status: response.statusCode!, headers: response.headers, text }));
    });
    sent.on('error', reject);
    sent.end();
  });
}

const runId = async (): Promise<string> =>
  (JSON.parse((await ask(`/${token}/runs`)).text) as { id: string }[])[0]!.id;

test('the address has a token of at least 128 bits, and the server listens on this machine only', () => {
  expect(server.address).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/[\w-]{22,}\/$/);
});

test('the page, its files and its data are answered with headers that lock them down', async () => {
  for (const path of ['', 'watch.js', 'style.css', 'watch-style.css', 'runs']) {
    const { status, headers, text } = await ask(`/${token}/${path}`);
    expect([path, status]).toEqual([path, 200]);
    expect(text.length).toBeGreaterThan(10);
    expect(headers['content-security-policy']).toMatch(
      /^default-src 'none'; script-src 'self'; style-src 'self'/,
    );
    expect(headers['content-security-policy']).toContain("frame-ancestors 'none'");
    expect(headers).toMatchObject({
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
      'cache-control': 'no-store',
      'cross-origin-resource-policy': 'same-origin',
    });
    expect(headers['access-control-allow-origin']).toBeUndefined();
  }
});

test('HEAD has no body, and an address without its last slash leads to the page', async () => {
  expect(await ask(`/${token}/`, {}, 'HEAD')).toMatchObject({ status: 200, text: '' });
  const { status, headers } = await ask(`/${token}`);
  expect([status, headers.location]).toEqual([308, `/${token}/`]);
});

test('every other token is answered as if nothing were here', async () => {
  const wrong = [
    token.slice(0, -1),
    `${token}x`,
    token.toUpperCase(),
    'A'.repeat(token.length),
    '',
    'favicon.ico',
  ];
  const answers = await Promise.all(wrong.map((other) => ask(`/${other}/`)));
  expect(answers.map(({ status }) => status)).toEqual(wrong.map(() => 404));
  expect(new Set(answers.map(({ text }) => text))).toEqual(new Set(['not found\n']));
});

test.each([
  ['../', '/TOKEN/../one/config.json'],
  ['an encoded slash', '/TOKEN/one%2fconfig.json'],
  ['encoded dots', '/TOKEN/%2e%2e/one/config.json'],
  ['two slashes', '/TOKEN//etc/passwd'],
  ['an absolute path', '/TOKEN//one/config.json'],
  ['a file of the folder', '/TOKEN/one/config.json'],
  ['a NUL', '/TOKEN/runs%00.js'],
  ['a backslash', '/TOKEN/..\\one'],
  ['an inherited name', '/TOKEN/constructor'],
  ['another server', 'http://127.0.0.1/TOKEN/runs'],
  ['a path as the run', '/TOKEN/details?run=../secret'],
  ['an encoded path as the run', '/TOKEN/details?run=%2e%2e%2fsecret'],
  ['the name of a run', '/TOKEN/details?run=one'],
  ['a run that is not there', '/TOKEN/details?run=0123456789abcdef'],
  ['a table by its path', '/TOKEN/table?run=RUN&kind=../../plain&step=1'],
  ['a table that is not there', '/TOKEN/table?run=RUN&kind=training&step=99'],
  ['a long query', `/TOKEN/events?at=${'a'.repeat(3_000)}`],
])('%s finds nothing', async (_, path) => {
  const address = path.replace('TOKEN', token).replace('RUN', await runId());
  expect(await ask(address)).toMatchObject({ status: 404, text: 'not found\n' });
});

test("of a sweep's folder its runs are shown", async () => {
  const sweep = watchedFolder();
  writeFileSync(join(sweep, 'sweep.json'), '{}');
  writeRun(join(sweep, 'runs', 'acoer-s1'), { steps: 3 });
  writeRun(join(sweep, 'runs', 'acoer-s2'), { steps: 3 });
  const watching = await startWatch({ path: sweep, port: 0 });
  const secret = new URL(watching.address).pathname.split('/')[1]!;
  const { text } = await ask(`/${secret}/runs`, {}, 'GET', watching.port);
  await watching.close();
  expect((JSON.parse(text) as { name: string }[]).map(({ name }) => name)).toEqual(['acoer-s1', 'acoer-s2']);
});

test('links that lead out of the folder are not runs, and the list says so', async () => {
  const names = (JSON.parse((await ask(`/${token}/runs`)).text) as { name: string }[]).map(
    ({ name }) => name,
  );
  // `model` has a config.json that no run wrote.
  expect(names).toEqual(['one']);
  const events = new WatchEvents(server.address);
  const first = await events.next('runs');
  events.close();
  expect(first).toMatchObject({ notes: [expect.stringMatching(/^link is a link that leads out/)] });
});

test('links within a run that lead out of it are not followed', async () => {
  const folder = watchedFolder();
  writeRun(join(folder, 'sly'), { steps: 3 });
  for (const name of ['metrics.jsonl', 'progress.json']) {
    rmSync(join(folder, 'sly', name), { force: true });
    symlinkSync(join(outside, 'plain.txt'), join(folder, 'sly', name));
  }
  rmSync(join(folder, 'sly', 'completions'), { recursive: true });
  symlinkSync(outside, join(folder, 'sly', 'completions'));
  const sly = await startWatch({ path: folder, port: 0 });
  const base = new URL(sly.address).pathname;
  const [entry] = JSON.parse((await ask(`${base}runs`, {}, 'GET', sly.port)).text) as {
    id: string;
    step: number;
  }[];
  const texts = await Promise.all(
    ['details', 'series'].map(
      async (what) => (await ask(`${base}${what}?run=${entry!.id}`, {}, 'GET', sly.port)).text,
    ),
  );
  await sly.close();
  expect(entry!.step).toBe(0);
  expect(texts.join('')).not.toContain('do not show');
  expect(JSON.parse(texts[0]!)).toMatchObject({ tables: [] });
});

test.each([
  ['localhost', 200],
  ['LOCALHOST:9', 200],
  ['127.0.0.1:8123', 200],
  ['[::1]:8123', 200],
  ['evil.example', 403],
  ['localhost.evil.example', 403],
  ['127.0.0.1.nip.io', 403],
  ['192.168.0.7', 403],
  ['localhost@evil.example', 403],
])('with the Host header %j the answer is %i', async (host, status) => {
  expect((await ask(`/${token}/`, { Host: host })).status).toBe(status);
  // The header comes first: the answer says nothing about the token.
  if (status === 403) expect((await ask('/wrong/', { Host: host })).status).toBe(403);
});

test('a server for other machines answers to its names and to addresses, but not to foreign names', async () => {
  const wide = await startWatch({ path: root, port: 0, host: '0.0.0.0' });
  const path = new URL(wide.address).pathname;
  const hosts = ['0.0.0.0', hostname(), '192.168.0.7:1', '[fe80::1]', 'localhost', 'evil.example'];
  const statuses: number[] = [];
  for (const host of hosts) statuses.push((await ask(path, { Host: host }, 'GET', wide.port)).status);
  await wide.close();
  expect(statuses).toEqual([200, 200, 200, 200, 200, 403]);
  expect(new URL(wide.address).hostname).toBe(hostname());
});

test('requests from other pages are refused; following a link to the page is not', async () => {
  const statuses = async (path: string, headers: Record<string, string>) =>
    (await ask(`/${token}/${path}`, headers)).status;
  expect(await statuses('runs', { Origin: 'http://evil.example' })).toBe(403);
  expect(await statuses('runs', { Origin: 'null' })).toBe(403);
  expect(await statuses('runs', { Origin: 'http://localhost' })).toBe(200);
  for (const site of ['cross-site', 'same-site']) {
    expect(await statuses('runs', { 'Sec-Fetch-Site': site })).toBe(403);
    expect(await statuses('watch.js', { 'Sec-Fetch-Site': site })).toBe(403);
    expect(await statuses('', { 'Sec-Fetch-Site': site, 'Sec-Fetch-Mode': 'no-cors' })).toBe(403);
    const link = { 'Sec-Fetch-Site': site, 'Sec-Fetch-Mode': 'navigate' };
    expect(await statuses('', { ...link, 'Sec-Fetch-Dest': 'iframe' })).toBe(403);
    expect(await statuses('', { ...link, 'Sec-Fetch-Dest': 'document' })).toBe(200);
  }
  expect(await statuses('runs', { 'Sec-Fetch-Site': 'same-origin' })).toBe(200);
});

test('nothing can be sent: other methods and bodies are refused', async () => {
  for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE']) {
    expect((await ask(`/${token}/runs`, {}, method)).status).toBe(405);
  }
  expect((await ask(`/${token}/runs`, { 'Content-Length': '5' })).status).toBe(400);
});

/** What the server says to bytes that a client sends as they are. */
function raw(bytes: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(server.port, '127.0.0.1', () => socket.write(bytes));
    let text = '';
    socket.on('data', (chunk) => (text += chunk.toString()));
    socket.on('close', () => resolve(text));
    socket.on('error', () => resolve(text));
  });
}

test('requests are bounded, and garbage is answered and forgotten', async () => {
  const long = await raw(`GET /${'a'.repeat(20_000)} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
  expect(long).toMatch(/^HTTP\/1\.1 4\d\d /);
  const header = await raw(`GET / HTTP/1.1\r\nHost: localhost\r\nX: ${'b'.repeat(20_000)}\r\n\r\n`);
  expect(header).toMatch(/^HTTP\/1\.1 4\d\d /);
  expect(await raw('\u0000\u0001 nonsense\r\n\r\n')).toMatch(/^HTTP\/1\.1 400 /);
  expect(await raw(`GET /${token}/ HTTP/1.0\r\n\r\n`)).toMatch(/^HTTP\/1\.1 403 /);
  expect((await ask(`/${token}/`)).status).toBe(200);
});

test('there is an end to the pages that can be open', async () => {
  const stop = new AbortController();
  const open = () => fetch(`${server.address}events`, { signal: stop.signal });
  const first = await Promise.all(Array.from({ length: 32 }, open));
  expect(new Set(first.map(({ status }) => status))).toEqual(new Set([200]));
  expect((await open()).status).toBe(503);
  stop.abort();
});

test('a port that is taken is one sentence; without --port the next free one is used', async () => {
  const taken = startWatch({ path: root, port: server.port });
  await expect(taken).rejects.toMatchObject({
    code: 'BAD_CONFIG',
    message: `Port ${server.port} is in use: name another with --port, or leave it out.`,
  });
  const [one, two] = [await startWatch({ path: root }), await startWatch({ path: root })];
  await Promise.all([one.close(), two.close()]);
  expect(two.port).toBeGreaterThan(one.port);
});

test.each([
  [
    'a folder that is not there',
    join(root, 'no'),
    /^There is no folder .*: name a run or a folder of runs\.$/,
  ],
  ['a file', join(root, 'one', 'config.json'), /is a file: name a run or a folder of runs\.$/],
])('%s is refused in one sentence', async (_, path, message) => {
  await expect(startWatch({ path, port: 0 })).rejects.toMatchObject({
    code: 'BAD_INPUT',
    message: expect.stringMatching(message),
  });
});

test('a name that is not of this machine is refused in one sentence', async () => {
  const refused = startWatch({ path: root, port: 0, host: '192.0.2.1' });
  await expect(refused).rejects.toMatchObject({
    code: 'BAD_CONFIG',
    message: expect.stringMatching(/^Cannot listen on 192\.0\.2\.1: .*--host\.$/),
  });
});

/** A connection that sends `text` and stays; resolves with what it was told once the server has closed it. */
function rawConnection(text: string): { socket: ReturnType<typeof connect>; closed: Promise<string> } {
  const socket = connect({ port: server.port, host: '127.0.0.1', allowHalfOpen: true });
  let told = '';
  const closed = new Promise<string>((resolve) => {
    socket.on('data', (chunk: Buffer) => (told += chunk.toString()));
    socket.on('error', () => undefined);
    socket.on('close', () => resolve(told));
    socket.on('end', () => resolve(told));
  });
  socket.on('connect', () => socket.write(text));
  return { socket, closed };
}

test('connections without the token do not keep the page from its owner, however many there are', async () => {
  const held = Array.from({ length: 200 }, (_, i) => rawConnection(i % 2 === 0 ? 'GET /' : ''));
  try {
    await Promise.all(held.map(({ socket }) => new Promise((resolve) => socket.once('connect', resolve))));
    for (let i = 0; i < 5; i++) expect((await ask(`/${token}/`)).status).toBe(200);
  } finally {
    for (const { socket } of held) socket.destroy();
  }
});

test('a page stays open while strangers come and go', async () => {
  const events = new WatchEvents(server.address);
  await events.next('runs');
  const held = Array.from({ length: 200 }, () => rawConnection('GET /'));
  try {
    await Promise.all(held.map(({ socket }) => new Promise((resolve) => socket.once('connect', resolve))));
    writeRun(join(root, 'newcomer'), { steps: 2 });
    await events.next('runs', ({ changed }) => changed.some(({ name }) => name === 'newcomer'));
  } finally {
    for (const { socket } of held) socket.destroy();
    events.close();
    rmSync(join(root, 'newcomer'), { recursive: true });
  }
});

const descriptors = (): number => readdirSync('/proc/self/fd').length;

test('connections that are no HTTP are answered and closed, also if they keep their own half open', async () => {
  const before = descriptors();
  const held = Array.from({ length: 20 }, () => rawConnection('\u0016\u0003\u0001 no request\r\n\r\n'));
  for (const { closed } of held) expect(await closed).toMatch(/^HTTP\/1\.1 400 /);
  await new Promise((resolve) => setTimeout(resolve, 50));
  // This process has the clients' ends, too.
  expect(descriptors()).toBeLessThan(before + 1.5 * held.length);
  for (const { socket } of held) socket.destroy();
});

test('two Host headers are a bad request', async () => {
  const { socket, closed } = rawConnection(
    `GET /${token}/ HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n`,
  );
  expect(await closed).toMatch(/^HTTP\/1\.1 400 /);
  socket.destroy();
});

test.each(['', ' '])('an empty host (%j) is refused rather than taken for every interface', async (host) => {
  await expect(startWatch({ path: root, port: 0, host })).rejects.toMatchObject({
    code: 'BAD_CONFIG',
    message: expect.stringMatching(/^--host is empty/),
  });
});
