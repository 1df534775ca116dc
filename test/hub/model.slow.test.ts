/** `--model org/name`: every command finds it through the hub, and folders come first. */
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DownloadView } from '../../src/cli/download';
import { resolveModel, TINY_MODEL } from '../../src/models';
import { acoer, linesFile, objects } from '../helpers/cli';
import { hubForTests } from '../helpers/hub';

// Several commands with a model each.

const { hub, setEnvironment } = hubForTests();
const NAME = 'acoer-test/tiny';
let commit: string;
let folder: string;

beforeEach(() => {
  const files = Object.fromEntries(
    readdirSync(TINY_MODEL).map((name) => [name, readFileSync(join(TINY_MODEL, name))]),
  );
  const unwanted = { 'pytorch_model.bin': 'x', 'model.gguf': 'x', 'onnx/model.onnx': 'x', 'README.md': 'x' };
  commit = hub().add(`models/${NAME}`, { ...files, ...unwanted });
  folder = mkdtempSync(join(tmpdir(), 'acoer-model-'));
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

test('fetches config, tokenizer and safetensors, and nothing else', async () => {
  const { directory, name } = await resolveModel(NAME);
  expect(name).toBe(`${NAME}@${commit}`);
  expect(readdirSync(directory).sort()).toEqual(
    readdirSync(TINY_MODEL)
      .filter((file) => /\.(json|safetensors|jinja)$/.test(file))
      .sort(),
  );
  for (const file of readdirSync(directory)) {
    expect(readFileSync(join(directory, file)).equals(readFileSync(join(TINY_MODEL, file)))).toBe(true);
  }
});

test('a revision after the @, and the pinned name without the network', async () => {
  const files = { 'config.json': '{}', 'model.safetensors': 'x' };
  const other = hub().add(`models/${NAME}`, files, { branch: 'v2' });
  expect(await resolveModel(`${NAME}@v2`)).toMatchObject({ name: `${NAME}@${other}` });
  hub().log.length = 0;
  expect(await resolveModel(`${NAME}@${other}`)).toMatchObject({ name: `${NAME}@${other}` });
  expect(hub().log).toEqual([]);
});

test('a folder of that name takes precedence; the message mentions a missing folder next to others', async () => {
  const here = process.cwd();
  process.chdir(folder);
  try {
    mkdirSync('acoer-test');
    cpSync(TINY_MODEL, NAME, { recursive: true });
    expect(await resolveModel(NAME)).toEqual({
      directory: join(process.cwd(), NAME),
      name: join(process.cwd(), NAME),
    });
    expect(hub().log).toEqual([]);
    await expect(resolveModel('acoer-test/other')).rejects.toMatchObject({
      code: 'HUB',
      message: expect.stringMatching(
        /^There is no folder acoer-test\/other, and model acoer-test\/other is not on http/,
      ),
    });
  } finally {
    process.chdir(here);
  }
});

test('a repository without safetensors, and one without a config', async () => {
  hub().add('models/o/bin', { 'config.json': '{}', 'pytorch_model.bin': 'x' });
  await expect(resolveModel('o/bin')).rejects.toThrow(/^model o\/bin has no weights in safetensors, so/);
  hub().add('models/o/noconfig', { 'model.safetensors': 'x' });
  await expect(resolveModel('o/noconfig')).rejects.toThrow(/^model o\/noconfig has no config\.json, so/);
});

test('eval, generate, score and bench take a name of the hub and show the download', async () => {
  const evalWords = ['--benchmark', 'tiny', '--problems', '4', '--json', '--threads', '1'];
  const out = mkdtempSync(join(tmpdir(), 'acoer-hub-eval-'));
  const fetched = await acoer('eval', '--model', NAME, ...evalWords, '--out', join(out, 'fetched'));
  expect(fetched.code).toBe(0);
  expect(fetched.stderr).toMatch(/^fetching acoer-test\/tiny: .* of .* MB/m);
  const local = await acoer('eval', '--model', 'tiny', ...evalWords, '--out', join(out, 'local'));
  rmSync(out, { recursive: true, force: true });
  const figures = (text: string) => ({ ...(JSON.parse(text) as object), model: '', completions: '' });
  expect(figures(fetched.stdout)).toEqual(figures(local.stdout));

  setEnvironment({ HF_HUB_OFFLINE: '1' });
  await hub().stop();
  const prompts = linesFile([{ messages: [{ role: 'user', content: '1+2 mod 10?' }] }]);
  const generated = await acoer('generate', '--model', NAME, '--max-new-tokens', '4', prompts);
  expect([generated.code, objects(generated.stdout).length]).toEqual([0, 1]);
  const scored = await acoer('score', '--model', NAME, linesFile([{ ids: [1, 2, 3], promptLength: 1 }]));
  expect([scored.code, objects(scored.stdout).length, scored.stderr]).toEqual([0, 1, '']);
  const bench = [
    '--prompts',
    '1',
    '--prompt-tokens',
    '4',
    '--group',
    '2',
    '--new-tokens',
    '2',
    '--repeats',
    '1',
  ];
  expect((await acoer('bench', 'rollout', '--model', NAME, ...bench)).code).toBe(0);
});

test('training pins the commit, in the run and in the adapter that PEFT reads', async () => {
  const out = join(folder, 'run');
  const settings = ['evalProblems=0', 'evalSampledProblems=0', 'maxCompletionLength=8', `model=${NAME}`];
  const words = [
    '--preset',
    'tiny',
    '--max-steps',
    '1',
    '--out',
    out,
    ...settings.flatMap((one) => ['--set', one]),
  ];
  const { code, stderr } = await acoer('train', ...words);
  expect(stderr).toMatch(/fetching from the hub: .* MB/);
  expect(code).toBe(0);
  const json = (path: string) => JSON.parse(readFileSync(join(out, path), 'utf8')) as Record<string, unknown>;
  expect(json('config.json').model).toBe(`${NAME}@${commit}`);
  expect(json('final/adapter_config.json')).toMatchObject({
    base_model_name_or_path: NAME,
    revision: commit,
  });
});

test.each([
  ['missing', 'acoer-test/nosuch', /^acoer: model acoer-test\/nosuch is not on http/],
  ['an unknown revision', `${NAME}@v9`, /^acoer: model acoer-test\/tiny has no revision "v9"/],
  ['gated', 'o/gated', /^acoer: model o\/gated is gated: ask for access on/],
  ['odd', 'a b/c', /^acoer: model a b\/c: no such folder; name a folder .* a model on the Hugging Face hub/],
])('%s: one sentence, exit 2, nothing on stdout', async (_, name, message) => {
  hub().add(
    'models/o/gated',
    { 'config.json': '{}', 'model.safetensors': 'x' },
    { gated: true, readers: 'hf_reader' },
  );
  writeFileSync(join(folder, 'in.jsonl'), '{"prompt": "1"}\n');
  const { code, stdout, stderr } = await acoer('generate', '--model', name, join(folder, 'in.jsonl'));
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toMatch(message);
  expect(stderr.trim().split('\n')).toHaveLength(1);
});

describe('the download line', () => {
  function lines(isTTY: boolean): string[] {
    const written: string[] = [];
    let now = 0;
    const view = new DownloadView(
      'o/m',
      { isTTY, columns: 100, write: (text) => written.push(text) },
      () => now,
    );
    for (let done = 0; done <= 20; done++, now += 1000) {
      view.onProgress({ file: 'f', doneBytes: done * 100e6, totalBytes: 2e9 });
    }
    return written;
  }

  test('shows bytes, rate and time left, every tenth in a pipe', () => {
    expect(lines(false)).toHaveLength(11);
    expect(lines(false)[5]).toBe('fetching o/m: 1.00 GB of 2.00 GB, 100.0 MB/s, 10 s left\n');
  });

  test('is redrawn on a terminal and ends with a newline', () => {
    expect(lines(true)).toHaveLength(21);
    expect(lines(true).at(-1)).toMatch(/^\r.*2\.00 GB of 2\.00 GB.*\n$/);
  });
});
