/** The hub behind a proxy: real sockets, a hub whose name only the proxy can resolve. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fetchSnapshot } from '../../src/hub';
import { readHubSettings } from '../../src/hub/settings';
import { hubForTests, sentence } from '../helpers/hub';
import { SAMPLE } from '../helpers/hub-server';
import { ProxyServer } from '../helpers/proxy-server';

const { hub, setEnvironment } = hubForTests();
let proxy: ProxyServer;
beforeEach(async () => {
  proxy = await new ProxyServer().start();
});
afterEach(() => proxy.stop());

const NAME = 'acoer-test/sample';
const BIG = 'model-00001-of-00002.safetensors';
const sample = SAMPLE['models/acoer-test/sample']!;
const fetchBig = () => fetchSnapshot(NAME, { type: 'model', accept: (path) => path === BIG });
const address = (name = '127.0.0.1') => `http://${name}:${proxy.port}`;
const portOf = (endpoint: string) => new URL(endpoint).port;
/** A name that does not resolve. */
const hidden = () => `http://hub.invalid:${portOf(hub().endpoint)}`;

test.each(['HTTP_PROXY', 'http_proxy'])(
  '%s: every request, redirects included, goes through it',
  async (name) => {
    setEnvironment({ HF_ENDPOINT: hidden(), [name]: address() });
    const { directory, files, revision } = await fetchSnapshot(NAME, { type: 'model' });
    expect(files).toEqual(Object.keys(sample).sort());
    for (const file of files) {
      expect(readFileSync(join(directory, file)).equals(Buffer.from(sample[file]!))).toBe(true);
    }
    expect(proxy.log).toContain(`GET ${hidden()}/${NAME}/resolve/${revision}/${BIG}`);
    expect(proxy.log.filter((line) => line.startsWith(`GET ${hub().cdnEndpoint}/`))).not.toEqual([]);
    expect(proxy.log).toHaveLength(hub().log.length);
  },
);

test('a proxy may be given without http://', async () => {
  setEnvironment({ HF_ENDPOINT: hidden(), HTTP_PROXY: `127.0.0.1:${proxy.port}` });
  await fetchBig();
  expect(proxy.log).not.toEqual([]);
});

test.each(['NO_PROXY', 'no_proxy'])('%s: each host of a redirect is matched separately', async (name) => {
  setEnvironment({ HF_ENDPOINT: hidden(), HTTP_PROXY: address(), [name]: 'example.org, 127.0.0.2' });
  await fetchBig();
  expect(proxy.log.some((line) => line.startsWith(`GET ${hidden()}/`))).toBe(true);
  expect(proxy.log.filter((line) => line.includes('127.0.0.2'))).toEqual([]);
  expect(hub().log.filter((line) => line.startsWith('CDN GET'))).not.toEqual([]);
});

test('NO_PROXY=* turns the proxy off', async () => {
  setEnvironment({ HTTP_PROXY: address(), HTTPS_PROXY: address(), NO_PROXY: '*' });
  await fetchBig();
  expect(proxy.log).toEqual([]);
});

test('a connection that breaks behind the proxy is resumed with a range request', async () => {
  setEnvironment({ HF_ENDPOINT: hidden(), HTTP_PROXY: address() });
  hub().faults.set(BIG, [{ cutAfter: 1000 }]);
  const { directory } = await fetchBig();
  expect(readFileSync(join(directory, BIG)).equals(Buffer.from(sample[BIG]!))).toBe(true);
  const ranges = hub().log.filter((line) => line.startsWith('CDN GET') && line.includes('bytes='));
  expect(ranges).not.toEqual([]);
});

test('a silent connection behind the proxy counts as lost after the time limit', async () => {
  setEnvironment({ HF_ENDPOINT: hidden(), HTTP_PROXY: address(), HF_HUB_DOWNLOAD_TIMEOUT: '0.5' });
  hub().faults.set(BIG, [{ silentAfter: 1000 }]);
  const { directory } = await fetchBig();
  expect(readFileSync(join(directory, BIG)).equals(Buffer.from(sample[BIG]!))).toBe(true);
});

test.each(['HTTPS_PROXY', 'https_proxy'])(
  '%s: https goes through a tunnel; a refusal is named',
  async (name) => {
    proxy.refuseWith = 403;
    setEnvironment({ HF_ENDPOINT: 'https://hub.invalid', [name]: address('user:se%25cret@127.0.0.1') });
    const message = await sentence(fetchBig());
    expect(proxy.log[0]).toBe('CONNECT hub.invalid:443');
    expect(proxy.credentials[0]).toBe(`Basic ${Buffer.from('user:se%cret').toString('base64')}`);
    expect(message).toContain('(the proxy answered 403)');
    expect(message).toContain(`check the network, the proxy ${address()} or HF_ENDPOINT`);
  },
);

test.each(['https://hub.invalid', null])(
  'the error says when a proxy needs a password (%s)',
  async (endpoint) => {
    proxy.refuseWith = 407;
    setEnvironment({ HF_ENDPOINT: endpoint ?? hidden(), HTTPS_PROXY: address(), HTTP_PROXY: address() });
    expect(await sentence(fetchBig())).toContain('the proxy answered 407; put user:password@');
  },
);

test.each(['HTTPS_PROXY', 'HTTP_PROXY'])(
  'an unreachable %s is named without its credentials',
  async (name) => {
    const gone = new ProxyServer();
    await gone.start();
    const { port } = gone;
    await gone.stop();
    const endpoint = name === 'HTTPS_PROXY' ? 'https://hub.invalid' : hidden();
    setEnvironment({ HF_ENDPOINT: endpoint, [name]: `http://user:secret@127.0.0.1:${port}` });
    const message = await sentence(fetchBig());
    expect(message).toContain(`ECONNREFUSED 127.0.0.1:${port}`);
    expect(message).toContain(`the proxy http://127.0.0.1:${port} or`);
    expect(message).not.toContain('secret');
  },
);

test.each([
  ['socks5://me:secret@proxy:1080', 'socks5://proxy:1080'],
  ['http://me:se%cret@proxy', 'http://proxy'],
  ['me:secret@:', ':'],
])('HTTPS_PROXY=%s is rejected in one sentence', (value, shown) => {
  const read = () => readHubSettings({ HTTPS_PROXY: value });
  expect(read).toThrow(expect.objectContaining({ code: 'HUB' }));
  expect(read).toThrow(`HTTPS_PROXY is ${shown}; it must be the address of an HTTP proxy`);
});

test('https uses HTTP_PROXY if HTTPS_PROXY is not set, and an empty value means no proxy', () => {
  const read = (env: Record<string, string>) => readHubSettings(env).proxy;
  expect(read({ HTTP_PROXY: 'one:1' })).toMatchObject({
    httpProxy: 'http://one:1',
    httpsProxy: 'http://one:1',
  });
  expect(read({ HTTPS_PROXY: ' ' })).toMatchObject({ httpProxy: '', httpsProxy: '' });
  expect(read({ HTTPS_PROXY: 'two:2', https_proxy: '' })).toMatchObject({ httpsProxy: '' });
});
