/** A hub that lies, hangs, drips or is none at all: every case ends, with one sentence. */
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { fetchSnapshot } from '../../src/hub';
import { readHubSettings } from '../../src/hub/settings';
import { acoer } from '../helpers/cli';
import { hubForTests, sentence } from '../helpers/hub';

const { setEnvironment } = hubForTests();

const COMMIT = 'a'.repeat(40);
const TOKEN = 'hf_SECRETsecretSECRET';
const CONFIG = Buffer.from('{"model_type":"qwen3"}');
const gitId = (body: Buffer) => createHash('sha1').update(`blob ${body.length}\0`).update(body).digest('hex');
const sha256 = (body: Buffer) => createHash('sha256').update(body).digest('hex');
const entry = { type: 'file', path: 'config.json', size: CONFIG.length, oid: gitId(CONFIG) };

type Answer = (request: IncomingMessage, response: ServerResponse) => unknown;
interface Behaviour {
  info?: Answer;
  /** The entries of every page. */
  tree?: unknown;
  treeAnswer?: Answer;
  file?: Answer;
}

let behaviour: Behaviour;
let requests: { url: string; authorization: string | undefined }[];
let endpoint: string;
/** Another host, with its requests. */
let other: string;
let atOther: IncomingMessage[];
const servers: Server[] = [];

async function listen(host: string, answer: Answer): Promise<string> {
  const server = createServer((request, response) => {
    response.on('error', () => undefined);
    void answer(request, response);
  });
  servers.push(server);
  await new Promise<void>((done) => server.listen(0, host, done));
  return `http://${host}:${(server.address() as AddressInfo).port}`;
}

const json = (value: unknown, headers = {}): Answer => {
  const body = typeof value === 'string' ? value : JSON.stringify(value);
  return (_, response) =>
    response.writeHead(200, { 'content-type': 'application/json', ...headers }).end(body);
};

const respond: Answer = (request, response) => {
  const { url = '', headers } = request;
  requests.push({ url, authorization: headers.authorization });
  const tree = behaviour.treeAnswer ?? json(behaviour.tree ?? [entry]);
  if (url.includes('/tree/')) return tree(request, response);
  if (url.startsWith('/api/')) return (behaviour.info ?? json({ sha: COMMIT }))(request, response);
  return (behaviour.file ?? ((_, reply) => reply.end(CONFIG)))(request, response);
};

beforeEach(async () => {
  behaviour = {};
  requests = [];
  atOther = [];
  endpoint = await listen('127.0.0.1', respond);
  other = await listen('127.0.0.2', (request, response) => {
    atOther.push(request);
    response.writeHead(200, { 'content-type': 'text/html' }).end('<html>log in</html>');
  });
  setEnvironment({ HF_ENDPOINT: endpoint, HF_TOKEN: TOKEN, HF_HUB_DOWNLOAD_TIMEOUT: '20' });
});

afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    await new Promise((done) => server.close(done));
  }
  for (const { authorization } of requests) expect(authorization).toBe(`Bearer ${TOKEN}`);
  for (const { headers } of atOther) expect(headers.authorization).toBeUndefined();
});

const fetchBoth = () => [
  fetchSnapshot('org/m', { type: 'model' }),
  fetchSnapshot('org/m', { type: 'dataset' }),
];

/** The sentence, which is the same for a model and a data set. */
async function refusal(): Promise<string> {
  const [model, dataset] = await Promise.all(fetchBoth().map(sentence));
  expect(dataset!.replaceAll('/datasets/', '/').replaceAll('dataset', 'model')).toBe(model);
  expect(model).not.toContain(TOKEN);
  return model!;
}

const NO_HUB = /which is no answer of a Hugging Face hub; .*log in or set HTTPS_PROXY.*HF_ENDPOINT/;

describe('an entry of the listing', () => {
  const lfs = { oid: sha256(Buffer.alloc(0)), pointerSize: 100 };
  const entries: [what: string, entry: unknown, problem: string][] = [
    ['a size as text', { ...entry, size: '22' }, '"size" of "config.json" is "22"'],
    ['a negative size', { ...entry, size: -5 }, '"size" of "config.json" is -5'],
    ['half a byte', { ...entry, size: 59.5 }, '"size" of "config.json" is 59.5'],
    ['an unsafe integer', { ...entry, size: 1e18 }, '"size" of "config.json" is 1000000000000000000'],
    ['no size', { ...entry, size: undefined }, '"size" of "config.json" is missing'],
    ['LFS without a size', { ...entry, lfs }, '"lfs", "size" of "config.json" is missing'],
    ['LFS with null', { ...entry, lfs: { ...lfs, size: null } }, '"lfs", "size" of "config.json" is null'],
    [
      'a short hash',
      { ...entry, lfs: { ...lfs, oid: 'abc', size: 0 } },
      '"lfs", "oid" of "config.json" is "abc"',
    ],
    ['a path as blob id', { ...entry, oid: '../../x' }, '"oid" of "config.json" is "../../x"'],
    ['a path that is no text', { ...entry, path: 5 }, '"path" is 5'],
    ['a path upwards', { ...entry, path: 'a/../../x' }, '"path" of "a/../../x" is "a/../../x"'],
    ['an absolute path', { ...entry, path: '/x' }, '"path" of "/x" is "/x"'],
    ['a path with two names', { ...entry, path: 'a//x' }, '"path" of "a//x" is "a//x"'],
    ['a backslash upwards', { ...entry, path: 'a\\..\\x' }, '"path" of "a\\\\..\\\\x" is'],
    ['a NUL', { ...entry, path: 'x\0y' }, '"path" of "x\\u0000y" is'],
    ['an escape sequence', { ...entry, path: 'x\u001b[2Jy' }, '"path" of "x\\u001b[2Jy" is'],
    ['null', null, 'entry 1 is null'],
    ['a number', 5, 'entry 1 is 5'],
    ['no type', { path: 'x' }, 'entry 1, "type" is missing'],
  ];

  test.each(entries)('%s is refused', async (_, given, problem) => {
    behaviour.tree = [given];
    const message = await refusal();
    expect(message).toContain(`with JSON in which ${problem}`);
    expect(message).toMatch(NO_HUB);
    expect(requests).toHaveLength(4);
  });
});

describe('something else than an answer', () => {
  const page: Answer = (_, response) =>
    response.writeHead(200, { 'content-type': 'text/html' }).end('<!DOCTYPE html><html>log in</html>');
  const kinds: [what: string, answer: Answer, got: string][] = [
    ['a login page', page, 'an HTML page'],
    ['a page without a type', json('<!DOCTYPE html>'), 'an HTML page'],
    ['broken JSON', json('[{"type":'), 'text that is not JSON ("[{\\"type\\":")'],
    ['nothing', json(''), 'text that is not JSON ("")'],
    ['null', json('null'), 'JSON in which the value is null'],
    ['a text', json('"x"'), 'JSON in which the value is "x"'],
    ['a page as 404', (_, response) => response.writeHead(404).end('<html>'), '404 and an HTML page'],
  ];
  test.each(kinds)('%s, as info and as listing, is named with its host', async (_, answer, got) => {
    behaviour.info = answer;
    expect(await refusal()).toContain(
      `${new URL(endpoint).host} answered the request for model org/m with ${got}, which`,
    );
    behaviour = { treeAnswer: answer };
    const message = await refusal();
    expect(message).toContain(`with ${got}, which`);
    expect(message).toMatch(NO_HUB);
  });

  test('a redirect to a login page names that host, which does not get the token', async () => {
    behaviour.info = (_, response) => response.writeHead(302, { location: `${other}/login` }).end();
    expect(await refusal()).toContain(
      `${new URL(other).host} answered the request for model org/m with an HTML page`,
    );
    expect(atOther).toHaveLength(2);
  });

  test('a login page instead of a file is named, too', async () => {
    behaviour.file = page;
    expect(await refusal()).toMatch(
      /arrived from 127\.0\.0\.1:\d+ \(text\/html\) with a different .* look for a login page/,
    );
  });

  test.each(['{oops, a proxy page', '[1', ''])('a 404 with the body %j is one sentence', async (body) => {
    behaviour.info = (_, response) => response.writeHead(404).end(body);
    expect(await refusal()).toMatch(
      /^model org\/m is not on http.*; check the name, or if it is private, use a token/,
    );
  });

  test.each([{}, { sha: 5 }, { sha: '../../..' }])('the info %j gives no commit', async (info) => {
    behaviour.info = json(info);
    expect(await refusal()).toMatch(/with JSON in which "sha" is .*, which is no answer/);
  });
});

describe('a listing', () => {
  /** Pages that go on by `link`, each with one new file. */
  const pages =
    (link: (page: number) => string): Answer =>
    (request, response) => {
      const page = Number(new URL(request.url!, endpoint).searchParams.get('cursor') ?? 0);
      const headers = { link: `<${link(page)}>; rel="next"` };
      json([{ ...entry, path: `f${page}-${requests.length}` }], headers)(request, response);
    };
  const tree = (kind: string) => `${endpoint}/api/${kind}/org/m/tree/${COMMIT}`;
  const only = (type: 'model' | 'dataset') => sentence(fetchSnapshot('org/m', { type }));

  test('that comes back to a page is refused', async () => {
    behaviour.treeAnswer = pages(() => `${tree('models')}?cursor=1`);
    expect(await only('model')).toMatch(/list of files of model org\/m from .* comes back to a page/);
    expect(requests).toHaveLength(3);
  });

  test('that goes on at another host is refused, and the host is never asked', async () => {
    behaviour.treeAnswer = pages(() => `${other}/api/models/org/m/tree/${COMMIT}?cursor=1`);
    expect(await only('model')).toMatch(/goes on at another host/);
    expect(atOther).toEqual([]);
  });

  test('that never ends is given up after a thousand pages', async () => {
    behaviour.treeAnswer = pages((page) => `${tree('datasets')}?cursor=${page + 1}`);
    expect(await only('dataset')).toMatch(/list of files of dataset org\/m .* does not end after 1000 pages/);
    expect(requests).toHaveLength(1001);
  });

  test('with too many files is given up', async () => {
    const many = Array.from({ length: 50_000 }, (_, i) => i);
    behaviour.treeAnswer = (request, response) => {
      const page = requests.length;
      const files = many.map((i) => ({ ...entry, path: `${page}-${i}` }));
      json(files, { link: `<${tree('models')}?cursor=${page}>; rel="next"` })(request, response);
    };
    expect(await only('model')).toMatch(/has more than 200000 files/);
  });

  test('with one path twice, or a file that is a folder, is refused', async () => {
    behaviour.tree = [entry, { ...entry, oid: 'b'.repeat(40) }];
    expect(await only('model')).toMatch(/has "config\.json" twice/);
    behaviour.tree = [
      { ...entry, path: 'a/b' },
      { ...entry, path: 'a' },
    ];
    expect(await only('model')).toMatch(/has "a" both as a file and as a folder/);
  });
});

describe('bytes without end, or hardly any', () => {
  const endless: Answer = (_, response) => {
    const write = () => {
      while (response.write(' '.repeat(1 << 16)));
    };
    response.on('drain', write);
    write();
  };

  test('an endless answer is dropped after 16 MiB', async () => {
    behaviour.info = endless;
    expect(await refusal()).toContain('with more than 16777216 bytes, which is no answer');
  });

  test('a gzip bomb counts by what comes out of it', async () => {
    const bomb = gzipSync(Buffer.alloc(1 << 26, 32));
    let members = 0;
    behaviour.info = (_, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' });
      const write = () => {
        while (members++ < 1000 && response.write(bomb));
      };
      response.on('drain', write);
      write();
    };
    expect(await only()).toContain('with more than 16777216 bytes, which is no answer');
    // Whatever the buffers on the way took, it was not the whole 64 GB.
    expect(members).toBeLessThan(500);
  });
  const only = () => sentence(fetchSnapshot('org/m', { type: 'model' }));

  test('an endless refusal is a refusal', async () => {
    behaviour.info = (request, response) => {
      response.writeHead(403);
      endless(request, response);
    };
    expect(await refusal()).toMatch(/refuses access to model org\/m: ask for access/);
  });

  test.each(['info', 'file'] as const)('a few bytes a second (%s) are a lost connection', async (what) => {
    setEnvironment({ HF_HUB_DOWNLOAD_TIMEOUT: '1' });
    let dripping = true;
    behaviour[what] = async (_, response) => {
      response.writeHead(200);
      for (let i = 0; dripping && !response.destroyed; i++) {
        response.write(CONFIG.subarray(i % 8, (i % 8) + 1));
        await sleep(200);
      }
    };
    behaviour.tree = [{ ...entry, size: 1_000_000 }];
    expect(await only()).toMatch(/^Cannot fetch .*model org\/m from .* \(only \d+ bytes in 1 s\)/);
    dripping = false;
    const asked = requests.filter(({ url }) => url.includes(what === 'info' ? '/revision/' : '/resolve/'));
    expect(asked).toHaveLength(5);
  });

  test('one byte per connection is given up, too', async () => {
    behaviour.tree = [{ ...entry, size: 1_000_000 }];
    behaviour.file = (request, response) => {
      const from = Number(/\d+/.exec(request.headers.range ?? '')?.[0] ?? 0);
      response.writeHead(206, { 'content-range': `bytes ${from}-${from}/1000000`, 'content-length': 2 });
      response.write('x', () => response.destroy());
    };
    expect(await only()).toMatch(/^Cannot fetch config\.json .*the partial file is kept/);
    expect(requests.filter(({ url }) => url.includes('/resolve/'))).toHaveLength(5);
  });

  test('a slow but honest server may take longer than the time limit', async () => {
    setEnvironment({ HF_HUB_DOWNLOAD_TIMEOUT: '1' });
    const body = Buffer.alloc(24_000, 'x');
    behaviour.tree = [{ ...entry, size: body.length, oid: gitId(body) }];
    behaviour.file = async (_, response) => {
      for (let at = 0; at < body.length; at += 2_000) {
        response.write(body.subarray(at, at + 2_000));
        await sleep(250);
      }
      response.end();
    };
    await fetchSnapshot('org/m', { type: 'model' });
    expect(requests.filter(({ url }) => url.includes('/resolve/'))).toHaveLength(1);
  });

  test('a server that asks to wait for years is not waited for', async () => {
    behaviour.info = (_, response) => response.writeHead(429, { 'retry-after': '1e9' }).end();
    expect(await refusal()).toContain('it answered 429 and asks to wait 1000000000 s');
    expect(requests).toHaveLength(2);
  });
});

test('a file that never matches is downloaded once, and once more if the first attempt resumed', async () => {
  const wrong = Buffer.alloc(CONFIG.length, 'x');
  behaviour.file = (_, response) => response.end(wrong);
  await refusal();
  expect(requests.filter(({ url }) => url.includes('/resolve/'))).toHaveLength(2);
});

describe('secrets', () => {
  test.each([
    'http://user:PASS/word@h',
    'https://PASSword@h/x',
    'user:PASSword@h',
    'http://u:PA@SS@h',
    'ftp://u:PASSword@h',
  ])('HF_ENDPOINT=%s is refused without being shown', (address) => {
    const read = () => readHubSettings({ HF_ENDPOINT: address });
    expect(read).toThrow(expect.objectContaining({ code: 'HUB' }));
    expect(read).toThrow(/HF_ENDPOINT contains a user name or password .* HF_TOKEN/);
    expect(read).not.toThrow(/PA/);
  });

  test('a query in HF_ENDPOINT is not shown, nor a password with a slash in a proxy', () => {
    expect(() => readHubSettings({ HF_ENDPOINT: 'https://h/?key=SECRET' })).toThrow(
      /HF_ENDPOINT is https:\/\/h\/\.\.\.; it/,
    );
    const proxy = () => readHubSettings({ HTTPS_PROXY: 'http://me:SE/CRET@proxy:1' });
    expect(proxy).toThrow(/HTTPS_PROXY is http:\/\/proxy:1;/);
  });
});

test("the command prints a hub's escape sequences as text, ends with exit code 2 and shows no token", async () => {
  behaviour.info = (_, response) =>
    response.writeHead(403).end(JSON.stringify({ error: 'pwn \u001b]0;title\u0007 \u009b31m \u202e' }));
  const { code, stderr, stdout } = await acoer('plan', '--set', 'model=org/m', '--set', 'dataset=tiny');
  expect(code).toBe(2);
  expect(stderr).toMatch(/pwn \\x1b\]0;title\\x07 \\x9b31m \\u202e/);
  expect(stdout + stderr).not.toContain(TOKEN);
});
