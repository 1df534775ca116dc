/** fetchSnapshot against a local server that speaks the hub's protocol. */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fetchSnapshot, type FetchProgress } from '../../src/hub';
import { noise, SAMPLE } from '../helpers/hub-server';
import { builtCli, ended } from '../helpers/cli';
import { hubForTests, sentence } from '../helpers/hub';

// A busy machine takes seconds to start a process.

const { hub, cache, setEnvironment } = hubForTests();

const model = { type: 'model' as const };
const BIG = 'model-00001-of-00002.safetensors';
const sample = SAMPLE['models/acoer-test/sample']!;
const fetchBig = () => fetchSnapshot('acoer-test/sample', { ...model, accept: (path) => path === BIG });
const folder = () => join(cache(), 'models--acoer-test--sample');
const blobs = () => readdirSync(join(folder(), 'blobs'));
/** Every file except BIG is there, and part of BIG. */
function onlyBigIsMissing(): boolean {
  if (!existsSync(join(folder(), 'blobs'))) return false;
  const partial = blobs().filter((name) => name.endsWith('.incomplete'));
  const whole = blobs().length - partial.length;
  if (partial.length !== 1 || whole !== Object.keys(sample).length - 1) return false;
  return statSync(join(folder(), 'blobs', partial[0]!)).size > 0;
}
const requestsFor = (path: string) => hub().log.filter((line) => line.startsWith(`CDN GET ${path}`));

test('fetches the accepted files, byte for byte, into the layout of the shared cache', async () => {
  const accept = (path: string) => !path.endsWith('.bin');
  const snapshot = await fetchSnapshot('acoer-test/sample', { ...model, accept });
  const wanted = Object.keys(sample).filter(accept).sort();
  expect(snapshot.files).toEqual(wanted);
  expect(snapshot.directory).toBe(join(folder(), 'snapshots', snapshot.revision));
  for (const path of wanted) {
    expect(readFileSync(join(snapshot.directory, path)).equals(Buffer.from(sample[path]!))).toBe(true);
  }
  expect(readFileSync(join(folder(), 'refs', 'main'), 'utf8')).toBe(snapshot.revision);
  const sha256 = createHash('sha256').update(sample[BIG]!).digest('hex');
  expect(readlinkSync(join(snapshot.directory, BIG))).toBe(`../../blobs/${sha256}`);
  expect(hub().log.some((line) => line.includes('.bin'))).toBe(false);
  expect(blobs().filter((name) => name.includes('.'))).toEqual([]);
});

test('a data set with folders and odd file names', async () => {
  const snapshot = await fetchSnapshot('acoer-test/rows', { type: 'dataset' });
  const rows = SAMPLE['datasets/acoer-test/rows']!;
  expect(snapshot.files).toEqual(Object.keys(rows).sort());
  for (const path of snapshot.files) {
    expect(readFileSync(join(snapshot.directory, path)).equals(Buffer.from(rows[path]!))).toBe(true);
    expect(lstatSync(join(snapshot.directory, path)).isSymbolicLink()).toBe(true);
  }
});

test('progress counts every byte once and ends at the total', async () => {
  const seen: FetchProgress[] = [];
  await fetchSnapshot('acoer-test/sample', { ...model, onProgress: (progress) => seen.push(progress) });
  const total = Object.values(sample).reduce((sum, data) => sum + Buffer.from(data).length, 0);
  expect(new Set(seen.map(({ totalBytes }) => totalBytes))).toEqual(new Set([total]));
  expect(seen.map(({ doneBytes }) => doneBytes)).toEqual(
    seen.map(({ doneBytes }) => doneBytes).sort((a, b) => a - b),
  );
  expect(seen.at(-1)!.doneBytes).toBe(total);
});

test('a second call requests only the commit, and one with a full commit requests nothing', async () => {
  const { revision } = await fetchBig();
  hub().log.length = 0;
  await fetchBig();
  expect(hub().log).toEqual([expect.stringContaining('/revision/main')]);
  hub().log.length = 0;
  await fetchSnapshot('acoer-test/sample', { ...model, revision, accept: (path) => path === BIG });
  expect(hub().log).toEqual([]);
});

test('branches, and a branch that moves', async () => {
  const first = hub().add('models/o/moving', { 'config.json': '1' });
  const other = hub().add('models/o/moving', { 'config.json': 'other' }, { branch: 'refs/pr/1' });
  expect((await fetchSnapshot('o/moving', model)).revision).toBe(first);
  expect((await fetchSnapshot('o/moving', { ...model, revision: 'refs/pr/1' })).revision).toBe(other);
  const second = hub().add('models/o/moving', { 'config.json': '2' });
  const moved = await fetchSnapshot('o/moving', model);
  expect(moved.revision).toBe(second);
  expect(readFileSync(join(moved.directory, 'config.json'), 'utf8')).toBe('2');
});

test('a broken connection resumes where it broke', async () => {
  hub().faults.set(BIG, [{ cutAfter: 100_000 }, { status: 503 }, { cutAfter: 50_000 }]);
  const { directory } = await fetchBig();
  expect(readFileSync(join(directory, BIG)).equals(sample[BIG] as Buffer)).toBe(true);
  const ranges = requestsFor(BIG).map((line) => line.split(' ').at(-1));
  expect(ranges[0]).toBe('whole');
  expect(new Set(ranges).size).toBeGreaterThanOrEqual(3);
  expect(ranges.at(-1)).toMatch(/^bytes=1[0-9]{5}-$/);
});

test('a silent server is dropped and retried', async () => {
  setEnvironment({ HF_HUB_DOWNLOAD_TIMEOUT: '0.3' });
  hub().faults.set(BIG, [{ silentAfter: 100_000 }]);
  await fetchBig();
  expect(requestsFor(BIG)).toHaveLength(2);
});

test('without range requests a file is read from the start again', async () => {
  hub().ranges = false;
  hub().faults.set(BIG, [{ cutAfter: 100_000 }]);
  const { directory } = await fetchBig();
  expect(readFileSync(join(directory, BIG)).equals(sample[BIG] as Buffer)).toBe(true);
});

test('an interrupted download says so, leaves no blob, and the next call resumes it', async () => {
  hub().faults.set(BIG, [{ slowly: 20_000 }]);
  const controller = new AbortController();
  const stopped = fetchSnapshot('acoer-test/sample', {
    ...model,
    accept: (path) => path === BIG,
    signal: controller.signal,
    onProgress: ({ doneBytes }) => doneBytes > 20_000 && controller.abort(),
  });
  await expect(stopped).rejects.toMatchObject({ code: 'INTERRUPTED' });
  expect(blobs()).toEqual([expect.stringMatching(/\.incomplete$/)]);
  expect(existsSync(join(folder(), 'refs', 'main'))).toBe(false);
  hub().log.length = 0;
  await fetchBig();
  expect(requestsFor(BIG)).toEqual([expect.stringMatching(/bytes=[1-9]\d*-$/)]);
  expect(blobs()).toEqual([expect.not.stringContaining('.')]);
});

test('when the server stays unreachable, the partial file is kept and the message says so', async () => {
  hub().faults.set(BIG, [{ cutAfter: 100_000 }, ...Array.from({ length: 9 }, () => ({ status: 503 }))]);
  expect(await sentence(fetchBig())).toMatch(
    /Cannot fetch model-00001.*answered 503.*the partial file is kept.*again/,
  );
  hub().faults.clear();
  hub().log.length = 0;
  await fetchBig();
  expect(requestsFor(BIG)).toEqual([expect.stringMatching(/bytes=[1-9]\d*-$/)]);
});

test('wrong bytes are discarded: in LFS by SHA-256, in git by blob id', async () => {
  hub().faults.set(BIG, [{ wrongBytes: true }]);
  expect(await sentence(fetchBig())).toMatch(/model-00001.* a different SHA-256 or size/);
  expect(blobs()).toEqual([]);
  hub().faults.set('config.json', [{ wrongBytes: true }]);
  const config = () =>
    fetchSnapshot('acoer-test/sample', { ...model, accept: (path) => path === 'config.json' });
  expect(await sentence(config())).toMatch(/config\.json.* a different git id or size/);
  expect(blobs()).toEqual([]);
  await config();
  await fetchBig();
});

test('a partial file with wrong bytes is silently fetched again', async () => {
  const sha256 = createHash('sha256').update(sample[BIG]!).digest('hex');
  mkdirSync(join(folder(), 'blobs'), { recursive: true });
  writeFileSync(join(folder(), 'blobs', `${sha256}.0-0-00000000-abcdef.incomplete`), noise('other', 4000));
  const { directory } = await fetchBig();
  expect(readFileSync(join(directory, BIG)).equals(sample[BIG] as Buffer)).toBe(true);
  expect(requestsFor(BIG)).toHaveLength(2);
});

/** The disk is full for files of more than a few KB while `work` runs. */
async function onFullDisk<T>(work: () => Promise<T>): Promise<T> {
  const some = await open(__filename);
  const prototype = Object.getPrototypeOf(some) as FileHandle;
  await some.close();
  // eslint-disable-next-line @typescript-eslint/unbound-method
  const write = prototype.write;
  const full = jest.spyOn(prototype, 'write').mockImplementation(function (
    this: FileHandle,
    ...words: unknown[]
  ) {
    const small = (words[0] as Uint8Array).length < 4096;
    const failure = Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
    return small ? (Reflect.apply(write, this, words) as unknown) : Promise.reject(failure);
  } as never);
  try {
    return await work();
  } finally {
    full.mockRestore();
  }
}

test('a pipe or a device under the name of a partial file is left alone', async () => {
  const sha256 = createHash('sha256').update(sample[BIG]!).digest('hex');
  mkdirSync(join(folder(), 'blobs'), { recursive: true });
  symlinkSync('/dev/zero', join(folder(), 'blobs', `${sha256}.0-0-00000000-abcdef.incomplete`));
  const { directory } = await fetchBig();
  expect(readFileSync(join(directory, BIG)).equals(sample[BIG] as Buffer)).toBe(true);
});

test('no space is reported before the download if it cannot fit, and when the disk fills up', async () => {
  expect(await onFullDisk(() => sentence(fetchBig()))).toMatch(
    /No space left in .*blobs for model-00001.* HF_HOME/,
  );
  rmSync(join(folder(), 'blobs'), { recursive: true });
  const tree = join(folder(), 'trees', readdirSync(join(folder(), 'trees'))[0]!);
  writeFileSync(tree, readFileSync(tree, 'utf8').replaceAll('300000', '9'.repeat(15)));
  hub().log.length = 0;
  expect(await sentence(fetchBig())).toMatch(/No space left .* needs 1000000\.0 GB more; free some/);
  expect(requestsFor(BIG)).toEqual([]);
});

test('missing repository, revision and files', async () => {
  expect(await sentence(fetchSnapshot('acoer-test/nosuch', model))).toMatch(
    /^model acoer-test\/nosuch is not on .*HF_TOKEN/,
  );
  setEnvironment({ HF_TOKEN: 'hf_reader' });
  expect(await sentence(fetchSnapshot('acoer-test/nosuch', model))).toMatch(
    /is not on .*token that can read it/,
  );
  expect(await sentence(fetchSnapshot('acoer-test/sample', { ...model, revision: 'v9' }))).toMatch(
    /^model acoer-test\/sample has no revision "v9"; name a branch/,
  );
  const gguf = fetchSnapshot('acoer-test/sample', { ...model, accept: (path) => path.endsWith('.gguf') });
  expect(await sentence(gguf)).toMatch(/has none of the required files; it has .*config\.json/);
  const { revision } = await fetchBig();
  delete hub().repositories.get('models/acoer-test/sample')!.commits[revision]!['README.md'];
  const readme = fetchSnapshot('acoer-test/sample', { ...model, accept: (path) => path === 'README.md' });
  expect(await sentence(readme)).toMatch(/^model acoer-test\/sample has no file README\.md; see/);
});

test('gated: without a token, with one without access, with one with access', async () => {
  hub().add('models/o/gated', { 'config.json': '{}' }, { gated: true, readers: 'hf_reader' });
  expect(await sentence(fetchSnapshot('o/gated', model))).toMatch(
    /^model o\/gated is gated: ask for access on http.*\/o\/gated, then set HF_TOKEN/,
  );
  setEnvironment({ HF_TOKEN: 'hf_stranger' });
  expect(await sentence(fetchSnapshot('o/gated', model))).toMatch(
    /is gated: ask for access .* with the account of the current token/,
  );
  setEnvironment({ HF_TOKEN: 'hf_reader' });
  expect((await fetchSnapshot('o/gated', model)).files).toEqual(['config.json']);
});

test('an unknown token, and one from the token file', async () => {
  setEnvironment({ HF_TOKEN: 'hf_expired' });
  expect(await sentence(fetchBig())).toMatch(/does not accept the current token/);
  hub().add('models/o/private', { 'model.safetensors': noise('p', 1000) }, { readers: 'hf_reader' });
  const home = join(cache(), '..');
  writeFileSync(join(home, 'token'), 'hf_reader\n');
  setEnvironment({ HF_TOKEN: undefined, HF_HOME: home });
  // The file is on the CDN, which refuses requests with the token.
  expect((await fetchSnapshot('o/private', model)).files).toEqual(['model.safetensors']);
});

test('offline works with a complete cache; with an incomplete one it says what to do', async () => {
  const online = await fetchBig();
  await hub().stop();
  setEnvironment({ HF_HUB_OFFLINE: '1' });
  expect(await fetchBig()).toEqual(online);
  expect(await sentence(fetchSnapshot('acoer-test/sample', model))).toMatch(
    /not complete in the cache .* HF_HUB_OFFLINE/,
  );
  expect(await sentence(fetchSnapshot('o/other', model))).toMatch(/HF_HUB_OFFLINE is set; unset it/);
  setEnvironment({ HF_HUB_OFFLINE: undefined });
  const notices: string[] = [];
  const again = await fetchSnapshot('acoer-test/sample', {
    ...model,
    accept: (path) => path === BIG,
    onNotice: (notice) => notices.push(notice),
  });
  expect(again).toEqual(online);
  expect(notices).toEqual([expect.stringMatching(/cannot be reached .*; using the cached model/)]);
  expect(await sentence(fetchSnapshot('o/other', model))).toMatch(
    /^Cannot fetch model o\/other from http.*run the same command again/,
  );
});

test('two calls at once share one download of each file', async () => {
  hub().faults.set(BIG, [{ slowly: 600 }]);
  const [one, two] = await Promise.all([fetchBig(), fetchBig()]);
  expect(one).toEqual(two);
  expect(requestsFor(BIG)).toHaveLength(1);
  expect(readFileSync(join(one.directory, BIG)).equals(sample[BIG] as Buffer)).toBe(true);
  expect(blobs().filter((name) => name.includes('.'))).toEqual([]);
});

test('processes that start together do not disturb each other, and the file of a killed one is taken over', async () => {
  const library = join(dirname(builtCli()), '..', 'hub', 'index.js');
  const script = `require(${JSON.stringify(library)}).fetchSnapshot('acoer-test/sample', { type: 'model' })
    .then(({ files }) => console.log(files.length))`;
  const start = () => spawn(process.execPath, ['-e', script], { env: { ...process.env, NODE_OPTIONS: '' } });
  hub().faults.set(BIG, [{ slowly: 20_000 }]);
  const killed = start();
  while (!onlyBigIsMissing()) await sleep(50);
  killed.kill('SIGKILL');
  await once(killed, 'close');
  expect(blobs().filter((name) => name.endsWith('.incomplete'))).toHaveLength(1);
  hub().log.length = 0;
  const results = await Promise.all([start(), start(), start()].map(ended));
  expect(results.map(({ code, stdout }) => `${code} ${stdout.trim()}`)).toEqual(Array(3).fill('0 11'));
  expect(requestsFor(BIG)[0]).toMatch(/bytes=[1-9]\d*-$/);
  expect(blobs().filter((name) => name.includes('.'))).toEqual([]);
  setEnvironment({ HF_HUB_OFFLINE: '1' });
  const { directory, files } = await fetchSnapshot('acoer-test/sample', model);
  for (const path of files) {
    expect(readFileSync(join(directory, path)).equals(Buffer.from(sample[path]!))).toBe(true);
  }
});

test('names that could escape from the cache are rejected', async () => {
  for (const name of ['../etc', 'a/b/c', 'a//b', 'a/..', 'org/na me', 'org--x/y']) {
    expect(await sentence(fetchSnapshot(name, model))).toMatch(/is not a name on the Hugging Face hub/);
  }
  for (const revision of ['..', 'a/../b', '', '/x', 'a b']) {
    expect(await sentence(fetchSnapshot('o/n', { ...model, revision }))).toMatch(/cannot be a revision/);
  }
});
