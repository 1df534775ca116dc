/** Pipes, devices, folders and links in the place of a run's files: nothing waits for ever, nothing outside is touched. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { train } from '../../src/train';
import { readMetrics } from '../../src/run';
import { acoer, ended, spawnAcoer } from '../helpers/cli';

jest.setTimeout(600_000);
const root = mkdtempSync(join(tmpdir(), 'acoer-odd-files-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let count = 0;
const newPath = (name: string): string => join(root, `${name}-${count++}`);

const settings = {
  preset: 'tiny',
  threads: 1,
  maxSteps: 4,
  promptsPerStep: 2,
  maxCompletionLength: 48,
  evalProblems: 2,
  evalSampledProblems: 0,
  saveSteps: 2,
  completionsSteps: 2,
  csv: true,
} as const;

const base = join(root, 'base');
beforeAll(async () => {
  await (await train(settings, { out: base })).result();
});

/** A copy that can be resumed. */
function copy(): string {
  const folder = newPath('run');
  cpSync(base, folder, { recursive: true });
  for (const name of ['summary.json', 'final']) rmSync(join(folder, name), { recursive: true, force: true });
  return folder;
}

const KINDS: Readonly<Record<string, (path: string) => void>> = {
  'a pipe': (path) => execFileSync('mkfifo', [path]),
  'a link to /dev/zero': (path) => symlinkSync('/dev/zero', path),
  'a folder': (path) => mkdirSync(path),
  'a link to nothing': (path) => symlinkSync(newPath('nothing'), path),
};

const COMMANDS: Readonly<Record<string, (folder: string) => string[]>> = {
  report: (folder) => ['report', folder, '--out', newPath('report.html')],
  show: (folder) => ['show', folder],
  monitor: (folder) => ['monitor', folder],
  resume: (folder) => ['train', '--resume', folder, '--max-steps', '5'],
  fork: (folder) => ['fork', folder, '--at', '4', '--max-steps', '5', '--out', newPath('fork')],
  eval: (folder) => ['eval', '--run', folder, '--benchmark', 'tiny', '--problems', '1', '--threads', '1', '--out', newPath('eval')], // prettier-ignore
};

const NEWEST = join('checkpoints', 'step-000004');
/** The run's files; of checkpoints those of the newest. */
function filesOf(folder: string): string[] {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  return names
    .filter((name) => lstatSync(join(folder, name)).isFile())
    .filter((name) => !name.startsWith('checkpoints') || name.startsWith(NEWEST));
}

/** Every command meets a pipe in place of every file; the other kinds, which go through the same code, take turns. */
const OTHERS = Object.keys(KINDS).filter((kind) => kind !== 'a pipe');
const tries = (files: readonly string[]) => [
  ...Object.keys(COMMANDS).flatMap((name) => files.map((file) => ({ name, file, kind: 'a pipe' }))),
  ...['report', 'resume'].flatMap((name, turn) =>
    files.map((file, i) => ({ name, file, kind: OTHERS[(i + turn) % OTHERS.length]! })),
  ),
];
/** Processes at once; each that trains takes 300 MB. */
const ABREAST = 3;

test('something odd in place of each file of a run, for each command that reads runs', async () => {
  const files = filesOf(copy());
  expect(files).toEqual(expect.arrayContaining([join(NEWEST, 'SHA256SUMS'), 'metrics.jsonl', 'metrics.csv']));
  const left = tries(files);
  const one = async () => {
    for (let next = left.pop(); next !== undefined; next = left.pop()) {
      const folder = copy();
      rmSync(join(folder, next.file));
      KINDS[next.kind]!(join(folder, next.file));
      const { code, stderr } = await ended(spawnAcoer(...COMMANDS[next.name]!(folder)));
      const last = stderr.trim().split('\n').at(-1)!;
      const said = code === 0 || (code === 2 && last.startsWith('acoer: '));
      expect({ ...next, code, stderr, said }).toMatchObject({ said: true });
      rmSync(folder, { recursive: true });
    }
  };
  await Promise.all(Array.from({ length: ABREAST }, one));
}); // prettier-ignore

test('a folder of a run that is a link is refused for going on: nothing is written or removed where it leads', async () => {
  for (const name of ['checkpoints', 'completions', 'evaluations', 'tensorboard', 'final', 'non-finite']) {
    const folder = copy();
    const other = newPath('other');
    if (existsSync(join(folder, name))) renameSync(join(folder, name), other);
    else mkdirSync(other);
    writeFileSync(join(other, '.tmp-mine'), 'mine');
    const before = readdirSync(other).sort();
    symlinkSync(other, join(folder, name));
    const { code, stderr } = await acoer('train', '--resume', folder, '--max-steps', '5', '--set', 'keepCheckpoints=1'); // prettier-ignore
    expect({ name, code, stderr }).toEqual({ name, code: 2, stderr: expect.stringContaining(`${name} is a link`) as string }); // prettier-ignore
    expect(readdirSync(other).sort()).toEqual(before);
  }
});

test('links and names of others inside a run: the link is removed at most, and other names stay', async () => {
  const folder = copy();
  const other = newPath('other');
  mkdirSync(other);
  writeFileSync(join(other, 'precious'), 'precious');
  symlinkSync(other, join(folder, '.tmp-config.json-1'));
  symlinkSync(other, join(folder, 'checkpoints', 'step-000001'));
  writeFileSync(join(folder, '.tmp-mine'), 'mine');
  rmSync(join(folder, 'metrics.jsonl'));
  symlinkSync(join(other, 'precious'), join(folder, 'metrics.jsonl'));
  const events = readdirSync(join(folder, 'tensorboard'))[0]!;
  symlinkSync(join(other, 'precious'), join(folder, 'tensorboard', events.replace(/\d{10}/, '0000000001')));
  const { code } = await acoer('train', '--resume', folder, '--max-steps', '6', '--set', 'keepCheckpoints=1');
  expect(code).toBe(0);
  expect(readFileSync(join(other, 'precious'), 'utf8')).toBe('precious');
  expect(readFileSync(join(folder, '.tmp-mine'), 'utf8')).toBe('mine');
  expect(existsSync(join(folder, '.tmp-config.json-1'))).toBe(false);
  expect(readMetrics(join(folder, 'metrics.jsonl')).map(({ step }) => step)).toEqual([1, 2, 3, 4, 5, 6]);
});

describe('metrics.jsonl under a run that goes on', () => {
  const changes: [string, (path: string) => void][] = [
    ['removed', (path) => rmSync(path)],
    ['replaced by an edited copy', (path) => (writeFileSync(`${path}.new`, '{"step":1}\n'), renameSync(`${path}.new`, path))], // prettier-ignore
    ['emptied', (path) => writeFileSync(path, '')],
    ['cut', (path) => writeFileSync(path, readFileSync(path).subarray(0, 50))],
    ['a link now', (path) => (rmSync(path), symlinkSync('/dev/null', path))],
  ];
  test.each(changes)('%s: every line is there at the end, and it is said once', async (_, change) => {
    const out = newPath('run');
    const warnings: string[] = [];
    const run = await train(
      { ...settings, maxSteps: 8, evalProblems: 0 },
      { out, onEvent: (event) => event.type === 'warning' && void warnings.push(event.message) },
    );
    for await (const { index } of run) if ([3, 6].includes(index)) change(join(out, 'metrics.jsonl'));
    const lines = readMetrics(join(out, 'metrics.jsonl'));
    expect(lines.map(({ step }) => step)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(warnings.filter((message) => message.includes('was replaced, removed or changed'))).toHaveLength(
      1,
    );
    const rows = readFileSync(join(out, 'metrics.csv'), 'utf8').trim().split('\n');
    expect(rows).toHaveLength(9);
  });

  test('the whole folder replaced by its copy: the run ends as when its lock is lost', async () => {
    const out = newPath('run');
    const run = await train({ ...settings, maxSteps: 8, evalProblems: 0 }, { out });
    const swap = async () => {
      for await (const { index } of run) {
        if (index !== 3) continue;
        renameSync(out, `${out}-old`);
        cpSync(`${out}-old`, out, { recursive: true });
      }
    };
    await expect(swap()).rejects.toMatchObject({ code: 'WRITE_FAILED' });
  });
});

function edit(path: string, change: (value: Record<string, object>) => unknown): void {
  const value = JSON.parse(readFileSync(path, 'utf8')) as Record<string, object>;
  writeFileSync(path, JSON.stringify(change(value) ?? value));
}

test.each<[string, (state: Record<string, object>) => void, string]>([
  ['another step', (state) => Object.assign(state.loop!, { step: 3 }), NEWEST],
  ['a step of a billion', (state) => Object.assign(state.loop!, { step: 1e9 }), join('checkpoints', 'step-1000000000')],
])('a checkpoint whose state has %s is refused', async (_, change, name) => {
  const folder = copy();
  const path = join(folder, NEWEST);
  edit(join(path, 'state.json'), (state) => void change(state));
  const sum = createHash('sha256').update(readFileSync(join(path, 'state.json'))).digest('hex');
  const sums = readFileSync(join(path, 'SHA256SUMS'), 'utf8').replace(/[0-9a-f]{64}(?= {2}state\.json)/, sum);
  writeFileSync(join(path, 'SHA256SUMS'), sums);
  if (name !== NEWEST) renameSync(path, join(folder, name));
  const { code, stderr } = await acoer('train', '--resume', folder, '--max-steps', '5');
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('does not fit its folder') as string });
}); // prettier-ignore

test.each<[string, (summary: Record<string, object>) => unknown]>([
  ['no evaluations', () => ({ run: { steps: 4 }, base: null, trained: null })],
  ['texts for numbers', (summary) => ({ ...summary, base: { greedy: { ...(summary.base as { greedy: object }).greedy, accuracy: '<b>', totalTokens: 'x' }, sampled: null } })],
  ['an empty evaluation', (summary) => ({ ...summary, trained: { greedy: {}, sampled: null } })],
  ['levels that are a number', (summary) => ({ ...summary, trained: { greedy: { ...(summary.trained as { greedy: object }).greedy, perLevel: 5 }, sampled: null } })],
])('a summary with %s: the report names it', async (_, change) => {
  const folder = newPath('run');
  cpSync(base, folder, { recursive: true });
  edit(join(folder, 'summary.json'), change);
  const { code, stderr } = await acoer('report', folder, '--out', newPath('report.html'));
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringMatching(/summary\.json is damaged: /) as string });
}); // prettier-ignore
