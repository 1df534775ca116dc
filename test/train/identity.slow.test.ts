/** What a run trusts: it resumes with the same model, tokenizer, template, rewards and evaluation data only. */
import { createHash } from 'node:crypto';
import { cpSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type * as Library from '../../src/index';
import { TINY_MODEL } from '../../src/models';
import type { StoredCheckpoint } from '../../src/run';
import type { TrainEvent, TrainOptions, TrainSettings } from '../../src/train';
import { builtCli } from '../helpers/cli';
import { FakeEngine } from '../helpers/fake-engine';
import { fakeDataset, fakeEvaluation, fakeTokenizer } from '../helpers/fake-tokenizer';

// A reward in a file needs the compiled program.
// eslint-disable-next-line @typescript-eslint/no-require-imports
const { train, makeReport, loadTokenizer } = require(
  join(dirname(builtCli()), '..', 'index.js'),
) as typeof Library;

const root = mkdtempSync(join(tmpdir(), 'acoer-identity-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let folders = 0;
const newPath = (name = 'run') => join(root, `${name}-${folders++}`);

function modelFolder(): string {
  const folder = newPath('model');
  cpSync(TINY_MODEL, folder, { recursive: true });
  return folder;
}

/** A reward file that imports another one, which imports a third without an ending. */
function rewardFolder(): string {
  const folder = newPath('reward');
  cpSync(join(__dirname, '..', 'fixtures', 'reward-files'), folder, { recursive: true });
  return folder;
}

const evaluated = (fingerprint: string) => {
  const data = fakeEvaluation(30);
  return { ...data, source: { ...fakeSource, fingerprint } } as Library.Dataset;
};
const fakeSource = {
  files: [],
  split: null,
  pinned: null,
  rows: 30,
  badRows: { count: 0, examples: [] },
  unparsedGold: { count: 0, examples: [] },
  otherLevels: 0,
};

async function parts(model: string) {
  const { fingerprints } = await loadTokenizer(model);
  return {
    engine: new FakeEngine(),
    tokenizer: { ...fakeTokenizer, fingerprints },
    trainData: fakeDataset(30),
    evalData: evaluated('first'),
  };
}

interface Stopped {
  out: string;
  model: string;
  rewards: string;
}

/** A run that was left after step 5 of 8, with a checkpoint of that step. */
async function stopped(more: TrainSettings = {}): Promise<Stopped> {
  const [model, rewards, out] = [modelFolder(), rewardFolder(), newPath()];
  const run = await train(
    {
      model,
      preset: 'tiny',
      maxSteps: 8,
      maxCompletionLength: 40,
      learningRate: 100,
      evalProblems: 10,
      evalSampledProblems: 0,
      evalSteps: 0,
      saveSteps: 2,
      tensorboard: false,
      reward: 'own',
      rewardModules: { own: join(rewards, 'main.mjs') },
      ...more,
    },
    { ...(await parts(model)), out },
  );
  for await (const { index } of run) if (index === 5) break;
  return { out, model, rewards };
}

async function resumed({ out, model }: Stopped, more: TrainSettings = {}, own: TrainOptions = {}) {
  const events: TrainEvent[] = [];
  const onEvent = (event: TrainEvent) => events.push(event);
  const run = await train(more, { ...(await parts(model)), resume: out, onEvent, ...own });
  return { summary: await run.result(), events };
}

const warningsOf = (events: readonly TrainEvent[]) =>
  events.flatMap((event) => (event.type === 'warning' ? [event.message] : []));

const refusal = (message: RegExp) => ({
  code: 'BAD_INPUT',
  message: expect.stringMatching(message) as string,
});

const stateOf = (out: string, step: number) =>
  JSON.parse(
    readFileSync(join(out, 'checkpoints', `step-00000${step}`, 'state.json'), 'utf8'),
  ) as StoredCheckpoint & { identity?: Record<string, Record<string, string>> };

/** Turns the last byte of a file. */
function changeFile(path: string): void {
  const bytes = readFileSync(path);
  bytes[bytes.length - 1]! ^= 1;
  writeFileSync(path, bytes);
}

const editJson = (path: string, edit: (value: Record<string, unknown>) => void) => {
  const value = JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>;
  edit(value);
  writeFileSync(path, JSON.stringify(value));
};

test('a checkpoint holds the SHA-256 of every file, and the run resumes with them', async () => {
  const run = await stopped();
  const sha256 = (path: string) => createHash('sha256').update(readFileSync(path)).digest('hex');
  const { identity } = stateOf(run.out, 5);
  expect(identity!.model).toEqual({
    'config.json': sha256(join(run.model, 'config.json')),
    'model.safetensors': sha256(join(run.model, 'model.safetensors')),
  });
  expect(identity!.tokenizer!['tokenizer.json']).toBe(sha256(join(run.model, 'tokenizer.json')));
  expect(Object.keys(identity!.chatTemplate!)).toEqual(['the chat template']);
  expect(identity!.rewards).toEqual({
    own: sha256(join(run.rewards, 'main.mjs')),
    'own: lib/weights.cjs': sha256(join(run.rewards, 'lib', 'weights.cjs')),
    'own: lib/base.js': sha256(join(run.rewards, 'lib', 'base.js')),
  });
  const { summary, events } = await resumed(run);
  expect(summary.run.steps).toBe(8);
  expect(summary.run.accepted).toBeUndefined();
  expect(warningsOf(events)).toEqual([]);
});

test.each<[string, RegExp, (model: string) => void]>([
  ['weights', /^model\.safetensors in .* has changed since the checkpoint of step 5/, (model) => changeFile(join(model, 'model.safetensors'))],
  ['config.json', /^config\.json in .* has changed/, (model) => editJson(join(model, 'config.json'), (config) => (config.rms_norm_eps = 1e-4))],
  ['tokenizer.json', /^tokenizer\.json in .* has changed/, (model) => writeFileSync(join(model, 'tokenizer.json'), `${readFileSync(join(model, 'tokenizer.json'), 'utf8')} `)],
  ['generation_config.json', /^generation_config\.json in .* has changed/, (model) => editJson(join(model, 'generation_config.json'), (config) => (config.eos_token_id = [1, 2]))],
  ['chat template', /^the chat template in .* has changed/, (model) => editJson(join(model, 'tokenizer_config.json'), (config) => (config.chat_template = '{{ messages[0].content }}'))],
])('other %s: refused by resume, and named', async (_, message, change) => {
  const run = await stopped();
  change(run.model);
  await expect(resumed(run)).rejects.toMatchObject(refusal(message));
  // The folder is free again, and the checkpoint as it was.
  rmSync(run.model, { recursive: true });
  cpSync(TINY_MODEL, run.model, { recursive: true });
  expect((await resumed(run)).summary.run.steps).toBe(8);
}); // prettier-ignore

test('a model folder and a reward file that moved resume where they are', async () => {
  const run = await stopped();
  const moved = { out: run.out, model: newPath('model'), rewards: newPath('reward') };
  renameSync(run.model, moved.model);
  renameSync(run.rewards, moved.rewards);
  const rewardModules = { own: join(moved.rewards, 'main.mjs') };
  const { events, summary } = await resumed(moved, { model: moved.model, rewardModules });
  expect(warningsOf(events)).toEqual([
    `changed on resuming: model "${run.model}" -> "${moved.model}" (the same files elsewhere)`,
    expect.stringMatching(/^changed on resuming: rewardModules .* \(the same files elsewhere\)$/),
  ]);
  expect(summary.run.steps).toBe(8);
});

test('another model in another place is refused like any other', async () => {
  const run = await stopped();
  const other = modelFolder();
  changeFile(join(other, 'model.safetensors'));
  await expect(resumed(run, { model: other })).rejects.toMatchObject(refusal(/^model\.safetensors in /));
});

test('other evaluation data is refused', async () => {
  const run = await stopped();
  const other = resumed(run, {}, { evalData: evaluated('second') });
  await expect(other).rejects.toMatchObject(refusal(/no longer holds the problems this run is evaluated on/));
});

describe('another reward file', () => {
  test.each(['main.mjs', 'lib/weights.cjs', 'lib/base.js'])('%s: refused, and named', async (file) => {
    const run = await stopped();
    const path = join(run.rewards, file);
    writeFileSync(path, `${readFileSync(path, 'utf8')}\n// changed\n`);
    await expect(resumed(run)).rejects.toMatchObject(refusal(/The reward file .*main\.mjs has changed since the checkpoint of step 5 \(own.*--accept-changed reward/)); // prettier-ignore
  });

  test('accepted: an event, the summary, the model card and the report show it', async () => {
    const run = await stopped();
    const path = join(run.rewards, 'main.mjs');
    writeFileSync(path, 'export default () => 0.25;\n');
    const { summary, events } = await resumed(run, {}, { acceptChanged: ['reward'] });
    const change = { what: 'reward', step: 5, files: ['own', 'own: lib/weights.cjs', 'own: lib/base.js'] };
    expect(events.filter(({ type }) => type === 'accepted')).toEqual([{ type: 'accepted', change }]);
    expect(summary.run.accepted).toEqual([change]);
    expect(stateOf(run.out, 8)).toMatchObject({ accepted: [change] });
    expect(readFileSync(join(run.out, 'final', 'README.md'), 'utf8')).toMatch(/another reward file +\| from step 6 on/);
    const { html } = await makeReport([run.out]);
    expect(html).toContain('Another reward file');
  }); // prettier-ignore

  test('accepted once: the next checkpoint knows the new file', async () => {
    const run = await stopped();
    writeFileSync(join(run.rewards, 'main.mjs'), 'export default () => 0.25;\n');
    const again = await train(
      {},
      { ...(await parts(run.model)), resume: run.out, acceptChanged: ['reward'] },
    );
    for await (const { index } of again) if (index === 6) break;
    const { summary, events } = await resumed(run);
    expect(events.filter(({ type }) => type === 'accepted')).toEqual([]);
    expect(summary.run.accepted).toHaveLength(1);
  });

  test('nothing else can be accepted, and only on resuming', async () => {
    const { out } = await stopped();
    const bad = { code: 'BAD_CONFIG' };
    await expect(train({}, { resume: out, acceptChanged: ['model' as 'reward'] })).rejects.toMatchObject(bad);
    await expect(train({}, { out: newPath(), acceptChanged: ['reward'] })).rejects.toMatchObject(bad);
  });
});

describe('a fork', () => {
  const forked = async ({ out, model }: Stopped, own: TrainOptions = {}, more: TrainSettings = {}) =>
    (
      await train(more, { ...(await parts(model)), fork: { run: out, at: 4 }, out: newPath(), ...own })
    ).result();

  test.each(['model.safetensors', 'tokenizer.json'])('refuses another %s', async (file) => {
    const run = await stopped();
    const path = join(run.model, file);
    if (file === 'tokenizer.json') writeFileSync(path, `${readFileSync(path, 'utf8')} `);
    else changeFile(path);
    const message = new RegExp(`^${file} in .* has changed since the checkpoint of step 4`);
    await expect(forked(run)).rejects.toMatchObject(refusal(message));
  });

  test('takes another reward file, and evaluates the base model on other data', async () => {
    const run = await stopped();
    writeFileSync(join(run.rewards, 'main.mjs'), 'export default () => 0.25;\n');
    const phases: string[] = [];
    const onEvent = (event: TrainEvent) => event.type === 'evaluated' && phases.push(event.phase);
    await expect(forked(run)).rejects.toMatchObject(refusal(/names the reward own .*main\.mjs.*--trust/));
    const same = await forked(run, { trust: true, onEvent: (event) => void onEvent(event) });
    expect(same.run.accepted).toBeUndefined();
    expect(phases).toEqual(['trained']);
    phases.length = 0;
    await forked(run, { evalData: evaluated('second'), onEvent: (event) => void onEvent(event) });
    expect(phases).toEqual(['base', 'trained']);
  });

  test('of a model that moved', async () => {
    const run = await stopped();
    const model = newPath('model');
    renameSync(run.model, model);
    expect((await forked({ ...run, model }, {}, { model })).run.steps).toBe(8);
  });
});

test('a checkpoint of a version without fingerprints resumes with a warning, and from then on has them', async () => {
  const run = await stopped();
  for (const step of [2, 4]) {
    rmSync(join(run.out, 'checkpoints', `step-00000${step}`), { recursive: true, force: true });
  }
  const folder = join(run.out, 'checkpoints', 'step-000005');
  editJson(join(folder, 'state.json'), (state) => {
    delete state.identity;
    delete state.accepted;
  });
  const sums = readFileSync(join(folder, 'SHA256SUMS'), 'utf8');
  const sum = createHash('sha256').update(readFileSync(join(folder, 'state.json'))).digest('hex');
  writeFileSync(join(folder, 'SHA256SUMS'), sums.replace(/[0-9a-f]{64}(?= {2}state\.json)/, sum));
  changeFile(join(run.model, 'model.safetensors'));
  const { events } = await resumed(run);
  expect(warningsOf(events)).toEqual([expect.stringMatching(/recorded no fingerprints/)]);
  expect(stateOf(run.out, 8).identity).toBeDefined();
}); // prettier-ignore
