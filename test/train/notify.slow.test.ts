/** Who is told what becomes of a run, and that the address is a secret which no run's folder can choose. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readConfigFile, resolveConfig, trainCommand } from '../../src/config';
import { apartFromAddress } from '../../src/life/notifier';
import { train, type TrainEvent } from '../../src/train';
import { fakeParts, fakeRun, newFolder, removeFakeRuns } from '../helpers/fake-run';
import { asCall, type Given } from '../helpers/given';
import { ToldServer } from '../helpers/told-server';

/** In the path of every address, and in no file or message. */
const MARK = 'T0PSECRET';

let server: ToldServer;
beforeEach(async () => {
  for (const name of ['HTTP_PROXY', 'http_proxy', 'HTTPS_PROXY', 'https_proxy', 'ACOER_NOTIFY'])
    delete process.env[name];
  server = await new ToldServer().start();
});
afterEach(() => server.stop());
afterAll(removeFakeRuns);

/** A run with all that was said of it, also to programs. */
async function run(more: Given): Promise<{ out: string; said: string; warnings: string[]; error: unknown }> {
  const events: TrainEvent[] = [];
  const onEvent = (event: TrainEvent) => void events.push(event);
  const given: Given =
    more.resume === undefined ? fakeRun({ ...more, onEvent }) : { ...more, ...fakeParts(), onEvent };
  const error: unknown = await (async () => (await train(...asCall(given))).result())().then(
    () => null,
    (thrown: unknown) => thrown,
  );
  const warnings = events.flatMap((event) => (event.type === 'warning' ? [event.message] : []));
  return {
    out: (given.out ?? given.resume)!,
    said: JSON.stringify([events, String(error)]),
    warnings,
    error,
  };
}

/** The files of a run that have the mark. */
const marked = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => readFileSync(path).includes(MARK));

const short: Given = { maxSteps: 3, evalProblems: 0, completionsSteps: 1 };
const ofNotify = (warnings: readonly string[]) => warnings.filter((message) => message.includes('notify'));

/** Noise in the fake's accuracy counts as a collapse. */
const collapsing: Given = {
  maxSteps: 20,
  evalProblems: 20,
  monitor: {
    spanGroups: 8,
    collapseAccuracyDrop: 0.2,
    collapseZ: null,
    collapseThinkingRatio: null,
    collapseSteps: 1,
    warningZ: null,
    warningAccuracyDrop: 0.1,
    warningAllWrongRise: 0.12,
  },
};

test('a collapse and the end are told in this order, each in a sentence and in fields', async () => {
  const { out, said, warnings } = await run({ ...collapsing, notify: server.url(`hook/${MARK}?x=1`) });
  expect(ofNotify(warnings)).toEqual([]);
  expect(server.told.length).toBeGreaterThan(1);
  const [collapse, ...later] = server.told;
  expect(collapse).toMatchObject({ event: 'collapsed', path: `/hook/${MARK}?x=1`, maxSteps: 20 });
  const name = out.split('/').at(-1)!;
  expect(collapse!.text).toMatch(new RegExp(`^${name}: Collapsed at step ${collapse!.step}\\. Collapse: `));
  const end = later.at(-1)!;
  expect(end).toMatchObject({ event: 'finished', run: name, step: 20 });
  expect(end.text).toMatch(
    new RegExp(
      `^${name}: Finished after step 20\\. .+\\. Thinking [\\d.]+ -> [\\d.]+ tokens, accuracy [\\d.]+% -> [\\d.]+%\\.$`,
    ),
  );
  for (const { text, content, time } of server.told) {
    expect(content).toBe(text);
    expect(new Date(time).toISOString()).toBe(time);
  }
  expect(marked(out)).toEqual([]);
  expect(said).not.toContain(MARK);
});

test('a failure is told with its reason; a name in it calls nobody', async () => {
  const reward = function breaks(): number {
    throw new Error('no <!channel> today');
  };
  const { error } = await run({ ...short, reward, notify: server.url(MARK) });
  expect(error).toMatchObject({ code: 'REWARD_FAILED' });
  expect(server.told).toMatchObject([{ event: 'failed', step: 0, maxSteps: 3 }]);
  expect(server.told[0]!.text).toContain('Failed after step 0. Reward "breaks" failed on');
  expect(server.told[0]!.text).toContain('no < !channel> today');
});

test('a run that cannot load its model is told as failed, and its folder is gone', async () => {
  const broken = fakeParts();
  broken.engine.loadModel = () => Promise.reject(new Error('no such weights'));
  const { error } = await run({ ...short, ...broken, notify: server.url(MARK) });
  expect(String(error)).toContain('no such weights');
  expect(server.told).toMatchObject([{ event: 'failed', text: expect.stringMatching(/It could not begin\. .*no such weights/) }]);
}); // prettier-ignore

/** A run that was left after its first step. */
async function left(more: Given): Promise<string> {
  const given = fakeRun({ ...short, ...more });
  const begun = await train(...asCall(given));
  await begun.next();
  await begun.return();
  return given.out;
}

test('a run that is left is told as interrupted; one that was never begun is not told', async () => {
  await left({ notify: server.url(MARK) });
  expect(server.told).toMatchObject([
    { event: 'interrupted', step: 1, text: expect.stringContaining('acoer train --resume') },
  ]);
  const opened = await train(...asCall(fakeRun({ ...short, notify: server.url(MARK) })));
  await opened.return();
  expect(server.told).toHaveLength(1);
});

test('a resumed run tells nobody until it is given an address again, and says so', async () => {
  const out = await left({ notify: server.url(MARK) });
  expect(marked(out)).toEqual([]);
  server.told.length = 0;
  const alone = await run({ resume: out, maxSteps: 4 });
  expect(ofNotify(alone.warnings)).toEqual([
    expect.stringMatching(/^Nobody will be told how this run ends: .*--set notify=URL or in ACOER_NOTIFY\.$/),
  ]);
  expect(server.told).toEqual([]);
  const again = await run({ resume: out, maxSteps: 5, notify: server.url(MARK) });
  expect(ofNotify(again.warnings)).toEqual([]);
  process.env.ACOER_NOTIFY = server.url(MARK);
  await run({ resume: out, maxSteps: 6 });
  expect(server.told.map(({ event, step }) => [event, step])).toEqual([
    ['finished', 5],
    ['finished', 6],
  ]);
  expect(marked(out)).toEqual([]);
});

test("an address that stands in somebody else's run is never called, nor kept", async () => {
  const out = await left({});
  const foreign = server.url(MARK);
  const plant = (path: string, put: (value: Record<string, never>) => void) => {
    const value = JSON.parse(readFileSync(path, 'utf8')) as Record<string, never>;
    put(value);
    writeFileSync(path, JSON.stringify(value));
  };
  plant(join(out, 'config.json'), (config) => Object.assign(config, { notify: foreign }));
  const [checkpoint] = readdirSync(join(out, 'checkpoints'));
  const { error, warnings } = await run({ resume: out, maxSteps: 4 });
  expect(error).toBeNull();
  expect(ofNotify(warnings).at(-1)).toMatch(/^Nobody will be told/);
  expect(server.told).toEqual([]);
  expect(readFileSync(join(out, 'config.json'), 'utf8')).toContain('"notify": "redacted"');
  expect(marked(out)).toEqual([]);
  const fork = newFolder();
  plant(join(out, 'config.json'), (config) => Object.assign(config, { notify: foreign }));
  const at = Number(checkpoint!.slice(-6));
  const forked = await train({ maxSteps: 4 }, { ...fakeParts(), out: fork, fork: { run: out, at } });
  await forked.result();
  expect(server.told).toEqual([]);
  expect(marked(fork)).toEqual([]);
});

test('the address of the environment serves runs whose settings name none', async () => {
  process.env.ACOER_NOTIFY = server.url(`environment/${MARK}`);
  const { out } = await run(short);
  expect(readFileSync(join(out, 'config.json'), 'utf8')).toContain('"notify": "redacted"');
  await run({ ...short, notify: server.url(`setting/${MARK}`) });
  expect(server.told.map(({ path }) => path)).toEqual([`/environment/${MARK}`, `/setting/${MARK}`]);
  expect(marked(out)).toEqual([]);
  expect(() => apartFromAddress({}, { ACOER_NOTIFY: `ftp://${MARK}` })).toThrow(
    'ACOER_NOTIFY must be an http or https address without user and password.',
  );
});

describe('an address that is not reached', () => {
  test.each<[string, (number | null)[], string[], number]>([
    ['answers 503 once', [503], [], 2],
    ['answers 503 twice', [503, 503], ['it answered 503'], 2],
    ['answers 404', [404], ['it answered 404'], 1],
    ['leads elsewhere', [302], ['it answered 302'], 1],
  ])('%s', async (_, answers, whys, requests) => {
    const elsewhere = await new ToldServer().start();
    server.answers = [...answers];
    server.location = elsewhere.url('elsewhere');
    const { error, warnings, said } = await run({ ...short, notify: server.url(MARK) });
    expect(error).toBeNull();
    expect(ofNotify(warnings)).toEqual(
      whys.map((why) => `The address in notify could not be told "finished" (${why}).`),
    );
    expect(server.told).toHaveLength(requests);
    expect(elsewhere.told).toEqual([]);
    expect(said).not.toContain(MARK);
    await elsewhere.stop();
  });

  test('is a closed port', async () => {
    const closed = await new ToldServer().start();
    const notify = closed.url(MARK);
    await closed.stop();
    const { error, warnings, said, out } = await run({ ...short, notify });
    expect(error).toBeNull();
    expect(ofNotify(warnings)).toEqual([
      'The address in notify could not be told "finished" (ECONNREFUSED).',
    ]);
    expect(said).not.toContain(MARK);
    expect(marked(out)).toEqual([]);
  });
});

test.each([`ftp://host/${MARK}`, `https://user:${MARK}@host/`, `//${MARK}`, MARK, ''])(
  'what is no address is refused without being shown: %s',
  (notify) => {
    expect(() => resolveConfig([{ notify }])).toThrow(
      /^Configuration: notify: must be an http or https address without user and password$/,
    );
  },
);

test('a command that repeats a run names no address, and a stored configuration can be used again', () => {
  const config = resolveConfig([{ model: 'tiny', notify: 'redacted' }]);
  expect(trainCommand(config)).toBe('npx acoer train --preset tiny');
  const path = `${newFolder()}.json`;
  writeFileSync(path, JSON.stringify(config));
  expect(apartFromAddress(readConfigFile(path), {})).toMatchObject({ address: null });
});

test('a server that never answers is waited for, and no longer than its time', async () => {
  server.answers = [null, null];
  const { error, warnings } = await run({ ...short, notify: server.url() });
  expect(error).toBeNull();
  expect(ofNotify(warnings)).toEqual([
    'The address in notify could not be told "finished" (no answer within 5 s).',
  ]);
  expect(server.told).toHaveLength(1);
});
