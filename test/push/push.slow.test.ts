/** `acoer push` as a user calls it: on a run full of what nobody else may see, to the stand-in hub, and back from there. */
import { spawn } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { fetchSnapshot } from '../../src/hub';
import { acoer, builtCli, ended } from '../helpers/cli';
import { hubForTests } from '../helpers/hub';
import { allReceived } from '../helpers/hub-push';

const { hub, setEnvironment } = hubForTests();

/** In every secret of this test. */
const SECRET = 'PLANTED';
const TOKEN = `hf_${SECRET}token`;
const folder = mkdtempSync(join(os.tmpdir(), `acoer-${SECRET}path-`));
const place = (name: string) => join(folder, name);
const run = place('run');
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const edit = (path: string, change: (text: string) => string) =>
  writeFileSync(path, change(readFileSync(path, 'utf8')));
const editJson = (path: string, more: object) =>
  edit(path, (text) => JSON.stringify({ ...(JSON.parse(text) as object), ...more }, null, 2));

/** Secrets wherever a run, its result and a tool before it may have put one. */
function plant(): void {
  const secret = (what: string) => `${SECRET}${what}`;
  editJson(join(run, 'config.json'), {
    name: secret('name'),
    dataset: `/data/${secret('data')}.jsonl`,
    evalDataset: `memory:${secret('memory')}`,
    promptTemplate: `${secret('prompt')} {problem}`,
    columns: { problem: secret('column') },
    rewardModules: { [secret('reward')]: `/code/${secret('file')}.mjs` },
    rewardParams: { [secret('params')]: { weight: 1 } },
    sampler: { name: secret('sampler'), params: { url: `http://${secret('server')}:8000/v1` } },
    sinks: [`/code/${secret('sink')}.mjs`],
    notify: `https://hooks.example/${secret('notify')}`,
    [secret('setting')]: 'text',
  });
  edit(join(run, 'metrics.jsonl'), (text) =>
    text.replace(
      '{',
      `{"rewards/${secret('metric')}/mean":1,"${secret('number')}":2,"host":"${secret('host')}",`,
    ),
  );
  const final = join(run, 'final');
  edit(join(final, 'README.md'), (text) =>
    text
      .replace('---\n', `---\nlicense: ${secret('license')}\ndatasets:\n- /data/${secret('datasets')}\n`)
      .replace(/^\| reward \|.*$/m, `| reward | acoer+${secret('reward')} |`)
      .replace(/^\| training data \|.*$/m, `| training data | \`${secret('data')}.jsonl\` |`)
      .replace(/^On `.*?`/m, `On \`${secret('eval')}\``)
      .replace(/^\| seed \|.*$/m, `| seed | 42 ${secret('seed')} |`)
      .concat(`\n## Notes\n\n${secret('notes')}\n\n| steps | ${secret('row')} |\n`),
  );
  editJson(join(final, 'adapter_config.json'), {
    auto_mapping: { parent_library: secret('library') },
    layers_pattern: `${secret('pattern')}/..`,
  });
  editJson(join(final, 'tokenizer_config.json'), {
    name_or_path: `/home/${secret('user')}/base`,
    tokenizer_file: `/home/${secret('user')}/tokenizer.json`,
    model_max_length: 1e30,
  });
  editJson(join(final, 'generation_config.json'), { _name_or_path: `/home/${secret('user')}` });
  editJson(join(final, 'tokenizer.json'), { [secret('extra')]: [secret('extra')] });
  writeFileSync(join(final, 'notes.txt'), secret('file'));
  writeFileSync(join(final, 'training_args.bin'), secret('args'));
  writeFileSync(join(run, 'completions', 'step-000009.parquet'), secret('completion'));
}

async function ok(...words: string[]): Promise<string> {
  const { code, stdout, stderr } = await acoer(...words);
  expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
  return stdout;
}
const refused = async (...words: string[]) => {
  const { code, stderr } = await acoer(...words);
  expect(code).toBe(2);
  return stderr;
};

interface Told {
  commit: string;
  committed: string[];
  files: { path: string; bytes: number }[];
  leftOut: string[];
}
const pushed = async (...words: string[]) => JSON.parse(await ok('push', ...words, '--json')) as Told;

const filesOf = (id: string): Record<string, string> => {
  const { commits, refs } = hub().repositories.get(`models/${id}`)!;
  return Object.fromEntries(
    Object.entries(commits[refs.main!]!)
      .filter(([path]) => path !== '.gitattributes')
      .map(([path, { content }]) => [path, content.toString('utf8')]),
  );
};

const names = ['USER', 'LOGNAME', 'HOSTNAME', 'USERNAME'];
const before = Object.fromEntries(names.map((name) => [name, process.env[name]]));

beforeAll(async () => {
  const sizes = ['--max-steps', '6', '--set', 'evalProblems=40', '--set', 'evalSampledProblems=0'];
  await ok('train', ...sizes, '--set', 'saveSteps=3', '--out', run);
  await ok('export', run, '--merge', place('merged'), '--dtype', 'float32');
  await ok('export', run, '--gguf', place('tiny.gguf'), '--dtype', 'float32');
  cpSync(run, place('clean'), { recursive: true });
  plant();
});

beforeEach(() => {
  hub().tokens.push(TOKEN);
  hub().pushed.writers[TOKEN] = ['acoer-test'];
  setEnvironment({ HF_TOKEN: TOKEN, ...Object.fromEntries(names.map((name) => [name, `${SECRET}${name}`])) });
  jest.spyOn(os, 'hostname').mockReturnValue(`${SECRET}host`);
});

afterEach(() => {
  // Whatever else a test does: no secret has left this machine but the token, in its header.
  const all = allReceived(hub().pushed.received);
  expect(all.match(new RegExp(`.{0,40}${SECRET}.{0,40}`, 'g')) ?? []).toEqual([]);
  setEnvironment(before);
  jest.restoreAllMocks();
});

const ADAPTER = [
  ...['README.md', 'adapter_config.json', 'adapter_model.safetensors', 'generation_config.json'],
  ...['tokenizer.json', 'tokenizer_config.json'],
];
const MODEL = [
  ...['README.md', 'config.json', 'generation_config.json', 'model.safetensors', 'tokenizer.json'],
  'tokenizer_config.json',
];
const asked = ['--temperature', '0', '--prompt', '6-3-4 mod 10?'];

test('an adapter with the run: only what is listed, and it answers as before', async () => {
  const words = [run, 'acoer-test/adapter', '--base-model', 'acoer-test/tiny', '--with-run'];
  const { leftOut, committed } = await pushed(...words);
  expect(committed.sort()).toEqual([...ADAPTER, 'run/config.json', 'run/metrics.jsonl'].sort());
  expect(leftOut).toEqual(
    expect.arrayContaining(['tokenizer_config.json: name_or_path', 'run/config.json: promptTemplate']),
  );
  const files = filesOf('acoer-test/adapter');
  expect(JSON.parse(files['adapter_config.json']!)).toMatchObject({
    base_model_name_or_path: 'acoer-test/tiny',
    peft_type: 'LORA',
    r: 16,
    revision: null,
    target_modules: expect.arrayContaining(['q_proj', 'down_proj']) as string[],
  });
  // A whole number for Python.
  expect(files['tokenizer_config.json']).toContain('"model_max_length": 1000000000000000019884624838656');
  expect(JSON.parse(files['run/config.json']!)).toMatchObject({
    maxSteps: 6,
    lossType: 'dapo',
    model: 'tiny',
  });
  expect(files['run/metrics.jsonl']!.trim().split('\n')).toHaveLength(6);
  expect(JSON.parse(files['run/metrics.jsonl']!.split('\n')[0]!)).toMatchObject({ step: 1 });
  const card = files['README.md']!;
  expect(card).toMatch(
    /^---\nbase_model: acoer-test\/tiny\nbase_model_relation: adapter\nlibrary_name: peft\n/,
  );
  expect(card).toContain('| reward | acoer + one of their own |');
  expect(card).toContain('| training data | data of their own |');
  expect(card).toMatch(/\| greedy \| 40 \| [\d.]+% \| [\d.]+% \| [\d.]+ \| [\d.]+ \|/);
  expect(card).toContain('| steps | 6 |');
  expect(card).toContain('AutoPeftModelForCausalLM.from_pretrained("acoer-test/adapter")');
  const { directory } = await fetchSnapshot('acoer-test/adapter', { type: 'model' });
  const there = await ok('generate', '--model', 'tiny', '--adapter', directory, ...asked);
  expect(there).toBe(
    await ok('generate', '--model', 'tiny', '--adapter', join(place('clean'), 'final'), ...asked),
  );
});

test('a merged folder comes back by its name and generates the same tokens; again, it makes no commit', async () => {
  editJson(join(place('merged'), 'config.json'), { _name_or_path: `/home/${SECRET}user/base` });
  const first = await pushed(place('merged'), 'acoer-test/merged');
  expect(first.committed.sort()).toEqual(MODEL);
  expect(first.leftOut).toEqual(['config.json: _name_or_path']);
  const card = filesOf('acoer-test/merged')['README.md']!;
  expect(card).toContain('library_name: transformers');
  expect(card).toMatch(/\| KL\(run, export\) per token, nats \| [\d.e+-]+ \|/);
  expect(card).toContain('step 6 of a run of acoer');
  const there = await ok('generate', '--model', 'acoer-test/merged', ...asked);
  expect(there).toBe(await ok('generate', '--model', place('merged'), ...asked));
  const again = await pushed(place('merged'), 'acoer-test/merged');
  expect(again).toMatchObject({ commit: first.commit, committed: [] });
  expect(await refused('push', run, 'acoer-test/merged', '--base-model', 'acoer-test/tiny')).toContain(
    'acoer-test/merged already holds model.safetensors, and transformers would load one of the two in place of the other',
  );
});

test('a GGUF file goes beside a model and leaves its card alone', async () => {
  const own = await pushed(place('tiny.gguf'), 'acoer-test/gguf', '--base-model', 'acoer-test/tiny');
  expect(own.committed).toEqual(['README.md', 'tiny.gguf']);
  expect(filesOf('acoer-test/gguf')['README.md']).toContain('llama-cli -hf acoer-test/gguf -hff tiny.gguf');
  await pushed(place('merged'), 'acoer-test/both');
  expect((await pushed(place('tiny.gguf'), 'acoer-test/both')).committed).toEqual(['tiny.gguf']);
  expect(filesOf('acoer-test/both')['README.md']).toContain('AutoModelForCausalLM');
});

test('a checkpoint has a card without an evaluation that is not its own', async () => {
  const words = [run, 'acoer-test/at-3', '--step', '3', '--base-model', 'acoer-test/tiny@step-3'];
  expect((await pushed(...words)).committed.sort()).toEqual(ADAPTER);
  const files = filesOf('acoer-test/at-3');
  expect(files['README.md']).toContain(': step 3 of a run of acoer');
  expect(files['README.md']).toContain('| steps | 3 |');
  expect(files['README.md']).not.toContain('## Evaluation');
  expect(JSON.parse(files['adapter_config.json']!)).toMatchObject({ revision: 'step-3' });
});

test('all weights of a run, and of its checkpoint', async () => {
  const full = place('full');
  const sizes = ['--max-steps', '2', '--set', 'evalProblems=0', '--set', 'evalSampledProblems=0'];
  await ok('train', '--full', ...sizes, '--set', 'saveSteps=1', '--out', full);
  expect((await pushed(full, 'acoer-test/full')).committed.sort()).toEqual(MODEL);
  rmSync(join(full, 'final'), { recursive: true });
  expect((await pushed(full, 'acoer-test/full', '--step', '2')).committed).toEqual(['README.md']);
  const there = await ok('generate', '--model', 'acoer-test/full', ...asked);
  expect(there).toContain('</think>');
});

test('--dry-run lists names and bytes, and asks no hub', async () => {
  setEnvironment({ HF_TOKEN: undefined });
  const words = ['push', place('merged'), 'acoer-test/dry', '--dry-run'];
  const { files } = JSON.parse(await ok(...words, '--json')) as Told;
  expect(files.map(({ path }) => path).sort()).toEqual(MODEL);
  const weights = readFileSync(join(place('merged'), 'model.safetensors')).length;
  expect(files).toContainEqual({ path: 'model.safetensors', bytes: weights });
  expect(await ok(...words)).toMatch(/^README\.md +\d+ B\n/);
  expect(hub().log).toEqual([]);
});

test('the text says where it is, and how it went', async () => {
  const words = ['push', place('merged'), 'acoer-test/text', '--branch', 'two', '--message', 'Mine'];
  const { stdout, stderr } = await acoer(...words);
  const commit = hub().repositories.get('models/acoer-test/text')!.refs.two!;
  expect(stdout).toBe(
    `${hub().endpoint}/acoer-test/text/tree/two, private: README.md, config.json, model.safetensors, tokenizer.json, tokenizer_config.json and generation_config.json (${commit.slice(0, 8)})\n`,
  );
  expect(stderr.split('\n').slice(-6)).toEqual([
    'creating acoer-test/text (private)',
    'creating the branch two',
    ...['sending model.safetensors', 'sending tokenizer.json', 'committing', ''],
  ]);
  expect(allReceived(hub().pushed.received)).toContain('"summary":"Mine"');
});

describe('refused, with nothing sent', () => {
  afterEach(() => expect(hub().log).toEqual([]));

  test('an adapter whose base model is a folder here', async () => {
    expect(await refused('push', run, 'acoer-test/x')).toMatch(
      /adapter_config\.json names the base model by a place that only this machine has \(\/.*\); give the base model's name on the hub with --base-model ORG\/NAME, or push a whole model: acoer export RUN --merge OUT\.\n$/,
    );
  });

  test('weights that say more than acoer writes', async () => {
    const bytes = readFileSync(join(place('merged'), 'model.safetensors'));
    const length = Number(bytes.readBigUInt64LE());
    const header = JSON.parse(bytes.toString('utf8', 8, 8 + length)) as object;
    const told = Buffer.from(JSON.stringify({ ...header, __metadata__: { format: 'pt', [SECRET]: SECRET } }));
    const prefix = Buffer.alloc(8);
    prefix.writeBigUInt64LE(BigInt(told.length));
    cpSync(place('merged'), place('told'), { recursive: true });
    writeFileSync(
      join(place('told'), 'model.safetensors'),
      Buffer.concat([prefix, told, bytes.subarray(8 + length)]),
    );
    expect(await refused('push', place('told'), 'acoer-test/x')).toContain('has the metadata "PLANTED"');
    const gguf = readFileSync(place('tiny.gguf'));
    const at = gguf.indexOf('general.size_label');
    gguf.write('general.secret_url', at);
    writeFileSync(place('told.gguf'), gguf);
    expect(await refused('push', place('told.gguf'), 'acoer-test/x')).toContain(
      'told.gguf has the key "general.secret_url", which acoer export does not write',
    );
    writeFileSync(place('cut.gguf'), gguf.subarray(0, -100));
    expect(await refused('push', place('cut.gguf'), 'acoer-test/x')).toContain(
      'is damaged or not a GGUF file',
    );
  });

  test.each([
    [['nowhere', 'acoer-test/x'], 'There is no nowhere; name a run, an exported folder or a .gguf file.'],
    [['src', 'acoer-test/x'], 'src is neither a run, nor a folder with the result of one'],
    [
      ['run', 'acoer-test/x', '--step', '5'],
      'has no checkpoint of step 5; it has checkpoints of the steps 3, 6.',
    ],
    [['merged', 'acoer-test/x', '--step', '5'], '--step is for a run; '],
    [['merged', 'acoer-test/x', '--with-run'], '--with-run is for a run; '],
    [['tiny.gguf', 'acoer-test/x', '--with-run'], '--step and --with-run are for a run; '],
    [
      ['run', 'acoer-test/x', '--base-model', '/a/folder'],
      '--base-model is /a/folder; it must be a name on the hub',
    ],
    [['merged', 'x'], 'x is not a name to push to; write it as org/name'],
    [['merged', 'x', '--dry-run'], 'x is not a name to push to; write it as org/name'],
    [['merged', 'acoer-test/x', '--private', '--public'], 'Give one of --private and --public, or neither'],
  ])('%j', async ([path, ...words], said) => {
    const known = readdirSync(folder).includes(path!) ? place(path!) : path!;
    expect(await refused('push', known, ...words)).toContain(said);
  });
});

test.each(['preupload', 'upload', 'commit'])('SIGINT in %s ends with 130 and a sentence', async (step) => {
  hub().pushed.faults.set(step, [{ silent: true }]);
  const begun = new Promise<void>((resolve) => {
    hub().pushed.onBegin = (name) => name === step && resolve();
  });
  const words = [builtCli(), 'push', place('merged'), 'acoer-test/stopped'];
  const child = spawn(process.execPath, words, { env: { ...process.env } });
  const end = ended(child);
  await Promise.race([begun, end]);
  child.kill('SIGINT');
  const { code, stderr } = await end;
  expect(stderr).toMatch(/The push to model acoer-test\/stopped was stopped; run the same command again/);
  expect(code).toBe(130);
});
