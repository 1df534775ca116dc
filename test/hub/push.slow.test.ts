/** Files go to the stand-in hub through `@huggingface/hub`, with faults in each of its steps. */
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fetchSnapshot, pushFiles, type PushedFile, type PushOptions } from '../../src/hub';
import { hubForTests, sentence } from '../helpers/hub';
import { noise } from '../helpers/hub-server';
import { ProxyServer } from '../helpers/proxy-server';

const { hub, setEnvironment } = hubForTests();
const folder = mkdtempSync(join(tmpdir(), 'acoer-push-'));
afterAll(() => rmSync(folder, { recursive: true }));
beforeEach(() => setEnvironment({ HF_TOKEN: 'hf_writer' }));

const NAME = 'acoer-test/new';
const BIG = 'model.safetensors';

function file(path: string, content: Buffer | string): PushedFile {
  const bytes = Buffer.from(content);
  if (bytes.length < 1000) return { path, bytes: bytes.length, content: bytes };
  const place = join(folder, `${createHash('sha1').update(bytes).digest('hex')}`);
  writeFileSync(place, bytes);
  return { path, bytes: bytes.length, content: place };
}

const CONTENT: Record<string, Buffer> = {
  'README.md': Buffer.from('# A card\n'),
  'config.json': Buffer.from('{"model_type": "qwen3"}\n'),
  [BIG]: noise('weights', 300_000),
};
const files = (changed: Record<string, Buffer> = {}) =>
  Object.entries({ ...CONTENT, ...changed }).map(([path, content]) => file(path, content));
const push = (options: Partial<PushOptions> = {}, given = files()) =>
  pushFiles(NAME, given, { message: 'A test', ...options });

const repository = (id = NAME) => hub().repositories.get(`models/${id}`);
const committed = (branch = 'main') => {
  const { commits, refs } = repository()!;
  return Object.fromEntries(
    Object.entries(commits[refs[branch]!]!).map(([path, { content }]) => [path, content.toString('latin1')]),
  );
};
const expected = (content = CONTENT) =>
  Object.fromEntries(Object.entries(content).map(([path, bytes]) => [path, bytes.toString('latin1')]));
const commits = () => hub().log.filter((line) => line.includes('/commit/')).length;
const uploads = () => hub().pushed.received.filter(({ method }) => method === 'PUT').length;
const later = { 'retry-after': '0' };

test('creates a private repository, sends large files apart, and what was pushed can be fetched', async () => {
  const phases: string[] = [];
  const pushed = await push({ onPhase: (phase) => phases.push(phase) });
  expect(pushed).toEqual({
    url: `${hub().endpoint}/${NAME}`,
    branch: 'main',
    commit: repository()!.refs.main,
    private: true,
    created: true,
    committed: Object.keys(CONTENT),
  });
  expect(phases).toEqual([`creating ${NAME} (private)`, `sending ${BIG}`, 'committing']);
  expect(committed()).toMatchObject(expected());
  const { directory, files: fetched } = await fetchSnapshot(NAME, { type: 'model' });
  expect(fetched).toEqual(['.gitattributes', ...Object.keys(CONTENT)].sort());
  for (const [path, content] of Object.entries(CONTENT)) {
    expect(readFileSync(join(directory, path)).equals(content)).toBe(true);
  }
});

test('the token goes to the hub alone, as the only one who knows it', async () => {
  setEnvironment({ HF_TOKEN: 'other_form_of_token' });
  hub().tokens.push('other_form_of_token');
  hub().pushed.writers.other_form_of_token = ['acoer-test'];
  await push();
  const { received } = hub().pushed;
  const toStorage = received.filter(({ method }) => method === 'PUT');
  expect(toStorage).toHaveLength(1);
  expect(toStorage.map(({ authorization }) => authorization)).toEqual([null]);
  const toHub = received.filter(({ method }) => method === 'POST');
  expect(new Set(toHub.map(({ authorization }) => authorization))).toEqual(
    new Set(['Bearer other_form_of_token']),
  );
});

test('the same bytes make no commit and are not sent; a changed file makes one with that file', async () => {
  const first = await push();
  const again = await push();
  expect(again).toMatchObject({ created: false, commit: first.commit, committed: [] });
  expect([commits(), uploads()]).toEqual([1, 1]);
  const readme = Buffer.from('# Another\n');
  const changed = await push({}, files({ 'README.md': readme }));
  expect(changed.committed).toEqual(['README.md']);
  expect([commits(), uploads()]).toEqual([2, 1]);
  expect(committed()).toMatchObject(expected({ ...CONTENT, 'README.md': readme }));
});

test('a file may give way to one that is there', async () => {
  await push();
  const given = [{ ...file('README.md', 'mine'), onlyIfMissing: true }, file('new.txt', 'new')];
  expect((await push({}, given)).committed).toEqual(['new.txt']);
  expect(committed()).toMatchObject(expected());
});

test('a large file goes in parts, each tried again by itself', async () => {
  hub().pushed.partBytes = 64_000;
  hub().pushed.faults.set('part', [{ status: 503, headers: later }]);
  await push();
  expect(uploads()).toBe(6);
  // The address to say so at is the hub's, but was signed for that.
  const completed = hub().pushed.received.filter(({ url }) => url.includes('/complete_multipart/'));
  expect(completed.map(({ authorization }) => authorization)).toEqual([null]);
  expect(committed()).toMatchObject(expected());
});

test('an empty file and a large JSON file arrive whole', async () => {
  const given = [file('empty.txt', ''), file('vocab.json', noise('vocab', 400_000).toString('hex'))];
  await push({}, given);
  expect(committed()['empty.txt']).toBe('');
  expect(committed()['vocab.json']).toHaveLength(800_000);
});

test('--public makes it public, and --private refuses what is public already', async () => {
  expect(await push({ visibility: 'public' })).toMatchObject({ private: false });
  expect(await sentence(push({ visibility: 'private' }))).toBe(
    `${NAME} is public already; make it private on ${hub().endpoint}/${NAME}/settings, or push without --private.`,
  );
  expect((await push()).private).toBe(false);
});

test('a branch is created from main, and main stays as it is', async () => {
  await push();
  const readme = Buffer.from('# Of the branch\n');
  const { branch } = await push({ branch: 'step/100' }, files({ 'README.md': readme }));
  expect(branch).toBe('step/100');
  expect(committed()).toMatchObject(expected());
  expect(committed('step/100')).toMatchObject(expected({ ...CONTENT, 'README.md': readme }));
});

describe('what is tried again', () => {
  test.each(['create', 'preupload', 'batch', 'upload', 'commit'])(
    '429, 503 and a cut in %s',
    async (step) => {
      hub().pushed.faults.set(step, [
        { status: 429, headers: later },
        { status: 503, headers: later },
        { cutAfter: 0 },
      ]);
      expect((await push()).committed).toEqual(Object.keys(CONTENT));
      expect(committed()).toMatchObject(expected());
      expect(Object.keys(repository()!.commits)).toHaveLength(2);
    },
  );

  test('an upload that is cut in its middle', async () => {
    hub().pushed.faults.set('upload', [{ cutAfter: 100_000 }]);
    await push();
    expect(uploads()).toBe(2);
    expect(committed()).toMatchObject(expected());
  });

  test('a connection that takes nothing more', async () => {
    setEnvironment({ HF_HUB_DOWNLOAD_TIMEOUT: '0.5' });
    hub().pushed.faults.set('upload', [{ silent: true }]);
    await push();
    expect(committed()).toMatchObject(expected());
  });

  test.each(['create', 'commit'])('a lost answer of %s leaves nothing twice', async (step) => {
    hub().pushed.faults.set(step, [{ lostAnswer: true }]);
    const pushed = await push();
    expect(pushed).toMatchObject({ commit: repository()!.refs.main, committed: Object.keys(CONTENT) });
    expect(Object.keys(repository()!.commits)).toHaveLength(2);
    expect(committed()).toMatchObject(expected());
  });
});

describe('what is refused', () => {
  const host = () => new URL(hub().endpoint).host;
  const tokens = () => `${hub().endpoint}/settings/tokens`;

  const REFUSALS: [step: string, status: number, said: () => string][] = [
    ['create', 403, () => `does not let the current token write to model ${NAME} (the fault that was asked for); create one that may on ${tokens()}`], // prettier-ignore
    ['preupload', 401, () => `does not accept the current token (HF_TOKEN or the token file) (the fault that was asked for); create one that may write on ${tokens()}.`], // prettier-ignore
    ['preupload', 403, () => `does not let the current token write to model ${NAME}`],
    ['batch', 403, () => `does not let the current token write to model ${NAME}`],
    ['batch', 404, () => `model ${NAME} is not on ${hub().endpoint} for the current token`],
    ['commit', 409, () => `model ${NAME} was changed by someone else meanwhile (the fault that was asked for); nothing was committed: run the same command again.`], // prettier-ignore
    ['commit', 413, () => `${host()} takes no request of the size of model ${NAME} (413); raise the limit`],
    ['commit', 400, () => `answered 400 to the push of model ${NAME} (the fault that was asked for); nothing was committed.`], // prettier-ignore
    ['upload', 403, () => `refused ${BIG} of model ${NAME} (403: the fault that was asked for); the address that the hub gave for it may have expired`], // prettier-ignore
    ['upload', 413, () => `takes no request of the size of ${BIG} of model ${NAME} (413)`],
  ];

  test.each(REFUSALS)('%s with %i', async (step, status, said) => {
    hub().pushed.faults.set(step, [{ status }]);
    expect(await sentence(push())).toContain(said());
  });

  test("someone else's commit in between", async () => {
    await push();
    hub().pushed.faults.set('commit', [{ meanwhile: true }]);
    const given = files({ 'README.md': Buffer.from('# Another\n') });
    expect(await sentence(push({}, given))).toContain('was changed by someone else meanwhile (A commit has');
    expect(committed()).toMatchObject({ ...expected(), 'notes.txt': 'theirs' });
    await push({}, given);
    expect(committed()).toMatchObject({ 'README.md': '# Another\n', 'notes.txt': 'theirs' });
  });

  test('a server that asks to wait for longer than half a minute', async () => {
    hub().pushed.faults.set('preupload', [{ status: 429, headers: { 'retry-after': '120' } }]);
    expect(await sentence(push())).toBe(
      `Cannot push model ${NAME} to ${hub().endpoint} (it answered 429 and asks to wait 120 s); nothing was committed: wait as long, or a few minutes, and run the same command again.`,
    );
  });

  test.each(['preupload', 'batch', 'upload', 'commit'])(
    'a server with a lasting fault in %s',
    async (step) => {
      hub().pushed.faults.set(step, Array(6).fill({ status: 500, headers: later }));
      const what = step === 'upload' ? `${BIG} of model ${NAME}` : `model ${NAME}`;
      expect(await sentence(push())).toBe(
        `Cannot push ${what} to ${hub().endpoint} (it answered 500); nothing was committed: the fault is at the server: try again later, and run the same command again.`,
      );
      expect(hub().pushed.faults.get(step)).toHaveLength(1);
    },
  );

  test.each([
    ['preupload', 'hello', 'with JSON in which the value is "hello"'],
    ['preupload', { files: [] }, 'does not say how to send README.md'],
    ['preupload', { files: Object.keys(CONTENT).map((path) => ({ path, uploadMode: 'pigeon' })) }, '"uploadMode" is "pigeon"'], // prettier-ignore
    ['batch', { objects: [{ oid: 'x' }] }, '"oid" is "x"'],
    [
      'batch',
      { objects: [{ oid: 'a'.repeat(64) }] },
      'that cannot be used (Unrequested object ID in response)',
    ],
    [
      'batch',
      { objects: [{ oid: 'a'.repeat(64), error: { code: 507, message: 'full' } }] },
      'does not take a file (507: full).',
    ],
    ['commit', { success: true }, '"commitOid" is missing'],
  ])('an answer of no hub to %s: %j', async (step, answer, said) => {
    hub().pushed.faults.set(step, [{ answer }]);
    expect(await sentence(push())).toContain(said);
  });

  test('a login page instead of an answer', async () => {
    hub().pushed.faults.set('commit', [
      { status: 200, headers: { 'content-type': 'text/html' }, text: '<html>Log in</html>' },
    ]);
    expect(await sentence(push())).toContain('an HTML page, which is no answer of a Hugging Face hub');
  });

  test('an unknown token, none, one that may not, and a name that is taken unseen', async () => {
    setEnvironment({ HF_TOKEN: 'hf_unknown' });
    expect(await sentence(push())).toContain('does not accept the current token');
    setEnvironment({ HF_TOKEN: 'hf_stranger' });
    expect(await sentence(push())).toContain(
      `does not let the current token write to model ${NAME} (You don't have the rights`,
    );
    setEnvironment({ HF_TOKEN: undefined });
    expect(await sentence(push())).toBe(
      `Pushing needs a token that may write: create one on ${tokens()}, then set HF_TOKEN or run: hf auth login.`,
    );
    expect(repository()).toBeUndefined();
    hub().add(`models/${NAME}`, {}, { readers: 'hf_reader' });
    setEnvironment({ HF_TOKEN: 'hf_writer' });
    expect(await sentence(push())).toContain(`${NAME} is taken on ${hub().endpoint} by a repository`);
  });

  test.each([
    ['one', {}, 'one is not a name to push to; write it as org/name, and a branch with --branch.'],
    ['org/name@branch', {}, 'org/name@branch is not a name to push to'],
    ['../up', {}, '../up is not a name to push to'],
    [NAME, { branch: 'a b' }, 'cannot be a revision'],
    [NAME, { branch: 'a'.repeat(40) }, 'is a commit, which nothing can be pushed to; name a branch.'],
  ])('pushing to %s %j', async (id, options, said) => {
    expect(await sentence(pushFiles(id, files(), { message: 'x', ...options }))).toContain(said);
    expect(hub().log).toEqual([]);
  });

  test('without the network', async () => {
    setEnvironment({ HF_HUB_OFFLINE: '1' });
    expect(await sentence(push())).toBe('HF_HUB_OFFLINE is set; unset it to push.');
    expect(hub().log).toEqual([]);
  });
});

test.each(['create', 'preupload', 'upload', 'commit'])(
  'the signal ends a push in its %s, and the next one goes on',
  async (step) => {
    const stop = new AbortController();
    hub().pushed.faults.set(step, [{ silent: true }]);
    hub().pushed.onBegin = (begun) => begun === step && stop.abort();
    await expect(push({ signal: stop.signal })).rejects.toMatchObject({
      code: 'INTERRUPTED',
      message: `The push to model ${NAME} was stopped; run the same command again: what the hub has of it is not sent again.`,
    });
    hub().pushed.onBegin = () => undefined;
    await push();
    expect(committed()).toMatchObject(expected());
  },
);

test('everything goes through the proxy', async () => {
  const proxy = await new ProxyServer().start();
  const hidden = `http://hub.invalid:${new URL(hub().endpoint).port}`;
  try {
    setEnvironment({ HF_ENDPOINT: hidden, HTTP_PROXY: `http://127.0.0.1:${proxy.port}` });
    await push();
    expect(committed()).toMatchObject(expected());
    expect(proxy.log.filter((line) => line.startsWith('PUT'))).toHaveLength(1);
    expect(proxy.log).toContain(`POST ${hidden}/api/models/${NAME}/commit/main`);
  } finally {
    await proxy.stop();
  }
});
