/** Files that are no files: pipes and devices, which must neither hang a command nor fill its memory. */
import { execFileSync, spawn } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';
import { parseJsonLines, parseLinesAsTheyCome } from '../../src/cli/jsonl';
import { TINY_MODEL } from '../../src/models';
import { builtCli, type CommandResult, ended, ROOT } from '../helpers/cli';

const folder = mkdtempSync(join(tmpdir(), 'acoer-special-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const row = '{"problem": "1+1 mod 10?", "answer": "2"}\n';

/** Runs a command that must end by itself; one that hangs is killed, so that its code is null. */
function run(words: readonly string[], node: readonly string[] = []): Promise<CommandResult> {
  const child = spawn(process.execPath, [...node, builtCli(), ...words], { cwd: ROOT });
  const timer = setTimeout(() => child.kill('SIGKILL'), 100_000);
  return ended(child).finally(() => clearTimeout(timer));
}

function pipe(path: string): string {
  rmSync(path, { force: true });
  execFileSync('mkfifo', [path]);
  return path;
}

function zero(path: string): string {
  rmSync(path, { force: true });
  symlinkSync('/dev/zero', path);
  return path;
}

let models = 0;

/** A copy of the embedded model in which `make` has replaced a file. */
function modelWith(name: string, make: (path: string) => string): string {
  const model = join(folder, `model-${models++}`);
  cpSync(TINY_MODEL, model, { recursive: true });
  make(join(model, name));
  return model;
}

const trainOn = (model: string) => [
  'train',
  '--preset',
  'tiny',
  '--set',
  `model=${model}`,
  '--max-steps',
  '1',
];

function dataFolder(): string {
  const path = join(folder, 'data');
  mkdirSync(path);
  writeFileSync(join(path, 'train.jsonl'), row);
  zero(join(path, 'README.md'));
  return path;
}

const data = (path: string) => ['data', path, '--model', 'tiny'];

test.each<[string, string, () => string[]]>([
  ['a configuration', 'a pipe', () => ['train', pipe(join(folder, 'config.yaml'))]],
  ['a configuration', 'a device', () => ['train', zero(join(folder, 'zero.yaml'))]],
  ['config.json of a model', 'a pipe', () => trainOn(modelWith('config.json', pipe))],
  ['the weights of a model', 'a pipe', () => trainOn(modelWith('model.safetensors', pipe))],
  ['tokenizer.json', 'a pipe', () => trainOn(modelWith('tokenizer.json', pipe))],
  ['tokenizer_config.json', 'a device', () => trainOn(modelWith('tokenizer_config.json', zero))],
  ['generation_config.json', 'a pipe', () => trainOn(modelWith('generation_config.json', pipe))],
  ['chat_template.jinja', 'a device', () => trainOn(modelWith('chat_template.jinja', zero))],
  ['a data set', 'a pipe', () => data(pipe(join(folder, 'data.jsonl')))],
  ['a data set', 'a device', () => data(zero(join(folder, 'zero.jsonl')))],
  ['a table', 'a pipe', () => data(pipe(join(folder, 'data.parquet')))],
  ["a data set's README.md", 'a device', () => data(dataFolder())],
  ['metrics to monitor', 'a pipe', () => ['monitor', pipe(join(folder, 'metrics.jsonl')), '--groups', '4']],
  [
    'a reward',
    'a pipe',
    () => {
      const reward = pipe(join(folder, 'reward.mjs'));
      return ['train', '--preset', 'tiny', '--reward', 'own', '--set', `rewardModules.own=${reward}`];
    },
  ],
])('%s that is %s is refused in one sentence', async (_, kind, words) => {
  const command = words();
  const out = command[0] === 'train' ? ['--out', join(folder, 'run')] : [];
  const { code, stderr } = await run([...command, ...out]);
  expect({ code, stderr }).toMatchObject({ code: 2 });
  expect(stderr).toContain(`it is ${kind}, not a regular file`);
  expect(stderr.trim().split('\n').at(-1)).toMatch(/^acoer: /);
});

test('commands that read their input once take it from a pipe as it comes', async () => {
  const input = pipe(join(folder, 'input'));
  const child = run(['verify', input]);
  const writer = spawn('sh', [
    '-c',
    `exec 3> ${input}; sleep 1; printf '%s\\n' '{"gold": "2", "pred": "\\\\boxed{2}"}' >&3`,
  ]);
  const { code, stdout } = await child;
  expect({ code, written: JSON.parse(stdout) as unknown }).toMatchObject({
    code: 0,
    written: { correct: true },
  });
  writer.kill();
});

test.each([parseJsonLines, parseLinesAsTheyCome])('a line without an end is refused: %p', async (parse) => {
  const endless = async () => {
    const piece = Buffer.alloc(1 << 24, 'x');
    let read = 0;
    const pieces = Readable.from(
      (function* () {
        while (read++ < 100) yield piece;
      })(),
    );
    for await (const _ of parse(pieces)) throw new Error('it has no line');
  };
  await expect(endless()).rejects.toMatchObject({
    code: 'BAD_INPUT',
    message: 'line 1: longer than 134217728 bytes.',
  });
});

test('more rows than fit into memory are one sentence, not the end of V8', async () => {
  const path = join(folder, 'many.jsonl.gz');
  const rows = Buffer.from(row.repeat(100_000));
  const zipped = gzipSync(rows);
  writeFileSync(path, Buffer.concat(Array.from({ length: 10 }, () => zipped)));
  const { code, stderr } = await run(data(path), ['--max-old-space-size=60']);
  expect({ code, stderr }).toMatchObject({ code: 2 });
  expect(stderr).toMatch(/line \d+: the problems up to here fill half of the memory .*--max-old-space-size/);
});

test('blank lines have an end', async () => {
  const path = join(folder, 'blank.jsonl.gz');
  writeFileSync(path, gzipSync(Buffer.alloc(2e7, '\n')));
  const { code, stderr } = await run(data(path));
  expect({ code, stderr }).toMatchObject({ code: 2 });
  expect(stderr).toMatch(/more than 16777216 characters without the end of a row/);
});

test('a data set with 200,000 levels is shown', async () => {
  const path = join(folder, 'levels.jsonl');
  const rows = Array.from({ length: 200_000 }, (_, i) =>
    JSON.stringify({ problem: '1', answer: '1', level: `${i}` }),
  );
  writeFileSync(path, rows.join('\n'));
  const { code, stdout } = await run([...data(path), '--no-tokens']);
  expect({ code, stdout }).toMatchObject({ code: 0 });
  expect(stdout).toContain('and 199,960 more levels');
});
