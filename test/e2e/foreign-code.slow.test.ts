/** Somebody else's run folder never runs code: SECURITY.md. Each module planted in it leaves a mark when it runs. */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type * as Library from '../../src/index';
import { builtCli, ended, linesFile, ROOT, type CommandResult } from '../helpers/cli';

// Modules in files need the compiled program.
// eslint-disable-next-line @typescript-eslint/no-require-imports
const library = require(join(dirname(builtCli()), '..', 'index.js')) as typeof Library;

jest.setTimeout(600_000);
const root = mkdtempSync(join(tmpdir(), 'acoer-foreign-code-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let count = 0;
const newPath = (name: string): string => join(root, `${name}-${count++}`);

/** A machine where nobody has named anything. */
function freshState(): string {
  const state = newPath('state');
  process.env.XDG_STATE_HOME = state;
  return join(state, 'acoer', 'named-modules');
}

/** As `spawnAcoer`, but Jest's `process.env`, which `freshState` changes, is a copy that children do not get. */
const start = (...words: string[]) =>
  spawn(process.execPath, [builtCli(), ...words], { cwd: ROOT, env: process.env });
const run = (...words: string[]): Promise<CommandResult> => ended(start(...words));

const SMALL = ['--preset', 'tiny', '--threads', '1', '--max-steps', '3'].concat(
  [
    'promptsPerStep=2',
    'evalProblems=0',
    'evalSampledProblems=0',
    'saveSteps=1',
    'completionsSteps=1',
  ].flatMap((setting) => ['--set', setting]),
);

/** A module that is a judge, a sink and a reward, and leaves `mark`. */
function moduleAt(path: string, mark: string): string {
  mkdirSync(dirname(path), { recursive: true });
  const body = `import { writeFileSync } from 'node:fs';
writeFileSync(${JSON.stringify(mark)}, 'ran');
export default (first) => (first?.directory === undefined ? true : {});
`;
  writeFileSync(path, body);
  return path;
}

const rewardAt = (path: string, mark: string): string => {
  moduleAt(path, mark);
  writeFileSync(path, readFileSync(path, 'utf8').replace(/export default .*/, 'export default () => 1;'));
  return path;
};

function edit(path: string, change: (value: Record<string, unknown>) => object): void {
  writeFileSync(
    path,
    JSON.stringify(change(JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>)),
  );
}

/** Makes SHA256SUMS of a folder true again. */
function sum(folder: string): void {
  const names = readdirSync(folder).filter((name) => name !== 'SHA256SUMS');
  const digest = (name: string) =>
    createHash('sha256')
      .update(readFileSync(join(folder, name)))
      .digest('hex');
  writeFileSync(join(folder, 'SHA256SUMS'), names.map((name) => `${digest(name)}  ${name}\n`).join(''));
}

/** The step overflows the weights, so that the run has dumps for `acoer replay`, too. */
let base: string;
beforeAll(async () => {
  base = newPath('base');
  const { code, stderr } = await run('train', ...SMALL, '--set', 'learningRate=1e30', '--set', 'warmupRatio=0', '--out', base); // prettier-ignore
  expect({ code, stderr }).toMatchObject({ code: 0 });
});

/** A copy of the run under other settings, in its own file and in every checkpoint and dump. */
function foreignRun(name: string, settings: (folder: string) => object): string {
  const folder = newPath(name);
  cpSync(base, folder, { recursive: true });
  for (const file of ['summary.json', 'lock.json']) rmSync(join(folder, file), { force: true });
  const planted = settings(folder);
  edit(join(folder, 'config.json'), (config) => ({ ...config, ...planted }));
  for (const kind of ['checkpoints', 'non-finite']) {
    for (const step of readdirSync(join(folder, kind))) {
      edit(join(folder, kind, step, 'state.json'), (state) => ({
        ...state,
        config: { ...(state.config as object), ...planted },
      }));
      sum(join(folder, kind, step));
    }
  }
  return folder;
}

const checkpoint = (folder: string): string => join(folder, 'checkpoints', 'step-000001');
const dump = (folder: string): string =>
  join(folder, 'non-finite', readdirSync(join(folder, 'non-finite'))[0]!);
const prompts = () => linesFile([{ ids: [1, 2, 3], promptLength: 1 }]);

/** Every command that takes a run or a part of one. */
const COMMANDS: Readonly<Record<string, (folder: string) => string[]>> = {
  report: (folder) => ['report', folder, '--out', newPath('report.html')],
  'report of two': (folder) => ['report', folder, base, '--out', newPath('report.html')],
  show: (folder) => ['show', folder],
  monitor: (folder) => ['monitor', folder],
  'eval --run': (folder) => ['eval', '--run', folder, '--problems', '1', '--out', newPath('eval')],
  'eval --run --benchmark': (folder) => ['eval', '--run', folder, '--benchmark', 'tiny', '--problems', '1', '--out', newPath('eval')], // prettier-ignore
  'eval --adapter': (folder) => ['eval', '--model', 'tiny', '--benchmark', 'tiny', '--adapter', checkpoint(folder), '--problems', '1', '--out', newPath('eval')], // prettier-ignore
  'train --resume': (folder) => ['train', '--resume', folder, '--max-steps', '4'],
  'train --adapter': (folder) => ['train', ...SMALL, '--adapter', checkpoint(folder), '--out', newPath('on')],
  'sft --resume': (folder) => ['sft', '--resume', folder],
  fork: (folder) => ['fork', folder, '--at', '1', '--max-steps', '2', '--out', newPath('fork')],
  replay: (folder) => ['replay', dump(folder)],
  generate: (folder) => ['generate', '--model', 'tiny', '--adapter', checkpoint(folder), '--prompt', '1+1', '--max-new-tokens', '2'], // prettier-ignore
  score: (folder) => ['score', '--model', 'tiny', '--adapter', checkpoint(folder), prompts()],
  lab: (folder) => ['lab', folder, '--observe', '--reward', 'acc'],
  plan: (folder) => ['plan', join(folder, 'config.json'), '--no-measure'],
  data: (folder) => ['data', '--config', join(folder, 'config.json')],
};
const LOADING = ['eval --run', 'eval --run --benchmark', 'train --resume', 'fork'];

test('no command runs code that only a run names; those that would need it say so in one sentence', async () => {
  freshState();
  for (const [name, words] of Object.entries(COMMANDS)) {
    const marks = ['judge', 'sink', 'own', 'acoer'].map((kind) => [kind, newPath(`mark-${kind}`)] as const);
    const folder = foreignRun('foreign', (path) => {
      const at = Object.fromEntries(
        marks.map(([kind, mark]) => [kind, moduleAt(join(path, `${kind}.mjs`), mark)]),
      );
      return {
        judge: at.judge,
        sinks: [at.sink],
        reward: [{ name: 'own', weight: 1, params: {} }],
        rewardModules: { own: at.own, other: at.acoer },
      };
    });
    const { code, stderr } = await run(...words(folder));
    const ran = marks.filter(([, mark]) => existsSync(mark)).map(([kind]) => kind);
    expect({ name, ran }).toEqual({ name, ran: [] });
    if (!LOADING.includes(name)) continue;
    expect({ name, code, stderr }).toEqual({ name, code: 2, stderr: expect.stringMatching(/^acoer: .* names the judge .*--trust[^\n]*\n$/) as string }); // prettier-ignore
    expect(existsSync(join(folder, 'lock.json'))).toBe(false);
  }
});

test('a module in any other place of a run that holds a name or a file is not run either', async () => {
  freshState();
  for (const [name, words] of Object.entries(COMMANDS)) {
    const mark = newPath('mark');
    const folder = foreignRun('foreign', (path) => {
      const evil = moduleAt(join(path, 'evil.mjs'), mark);
      for (const file of ['package.json', 'index.js', 'adapter.js']) copyFileSync(evil, join(path, file));
      return { name: evil, lossType: evil, model: evil, dataset: evil, evalDataset: evil, adapter: evil };
    });
    for (const part of ['summary.json', 'fork.json', 'rollbacks.json']) {
      writeFileSync(join(folder, part), JSON.stringify({ judge: join(folder, 'evil.mjs'), run: join(folder, 'evil.mjs') })); // prettier-ignore
    }
    await run(...words(folder));
    expect({ name, ran: existsSync(mark) }).toEqual({ name, ran: false });
  }
});

test('the live page runs nothing', async () => {
  freshState();
  const mark = newPath('mark');
  const folder = foreignRun('foreign', (path) => {
    const evil = moduleAt(join(path, 'evil.mjs'), mark);
    return { judge: evil, sinks: [evil], reward: 'own', rewardModules: { own: evil } };
  });
  const child = start('watch', folder, '--port', '0');
  const end = ended(child);
  const address = await new Promise<string>((resolve) => {
    let text = '';
    child.stdout.on('data', (chunk: Buffer) => {
      text += chunk.toString();
      const found = /http:\S+/.exec(text);
      if (found !== null) resolve(found[0]);
    });
  });
  expect((await fetch(address)).status).toBeLessThan(500);
  child.kill('SIGTERM');
  await end;
  expect(existsSync(mark)).toBe(false);
});

describe('modules that the user has named', () => {
  let judge: string;
  let reward: string;
  let sink: string;
  let own: string;
  let store: string;

  beforeAll(async () => {
    store = freshState();
    const folder = newPath('modules');
    judge = moduleAt(join(folder, 'judge.mjs'), join(root, 'judge-ran'));
    sink = moduleAt(join(folder, 'sink.mjs'), join(root, 'sink-ran'));
    reward = rewardAt(join(folder, 'reward.mjs'), join(root, 'reward-ran'));
    writeFileSync(join(folder, 'part.mjs'), 'export const part = 1;\n');
    writeFileSync(
      reward,
      `import { part } from './part.mjs';\n${readFileSync(reward, 'utf8')}export { part };\n`,
    );
    own = newPath('own');
    const config = join(root, 'run.json');
    writeFileSync(config, JSON.stringify({ preset: 'tiny', judge, sinks: [sink] }));
    const words = ['train', config, ...SMALL, '--reward', 'mine', '--set', `rewardModules.mine=${reward}`];
    const { code, stderr } = await run(...words, '--out', own);
    expect({ code, stderr }).toMatchObject({ code: 0 });
    expect(stderr).not.toContain('--trust');
  });

  const evaluated = (folder: string, ...more: string[]) =>
    run('eval', '--run', folder, '--benchmark', 'tiny', '--problems', '1', '--threads', '1', '--out', newPath('eval'), ...more); // prettier-ignore
  const refused = { code: 2, stderr: expect.stringContaining('--trust') as string };

  test('are kept outside the run, one file each, for the user alone', () => {
    const names = readdirSync(store);
    expect(names).toHaveLength(3);
    expect(names.map((name) => statSync(join(store, name)).mode & 0o777)).toEqual([0o600, 0o600, 0o600]);
  });

  test('run again when the run is evaluated, resumed and forked; the judge is named', async () => {
    const { code, stdout } = await evaluated(own, '--json');
    expect(code).toBe(0);
    for (const line of stdout.trim().split('\n')) expect(JSON.parse(line)).toMatchObject({ judge });
    expect((await evaluated(own)).stdout).toContain(`Judge: ${judge}`);
    const fork = newPath('fork');
    expect(await run('fork', own, '--at', '2', '--max-steps', '4', '--out', fork)).toMatchObject({ code: 0 });
    expect(await run('train', '--resume', fork, '--max-steps', '5')).toMatchObject({ code: 0 });
  });

  test('are asked about again once they, or what they import, have changed, or lie elsewhere', async () => {
    const copy = newPath('copy');
    cpSync(own, copy, { recursive: true });
    const moved = newPath('moved');
    cpSync(dirname(judge), moved, { recursive: true });
    edit(join(copy, 'config.json'), (config) => ({ ...config, judge: join(moved, 'judge.mjs') }));
    expect(await evaluated(copy)).toMatchObject(refused);

    const before = readFileSync(judge, 'utf8');
    writeFileSync(judge, `${before}// changed\n`);
    expect(await evaluated(own)).toMatchObject(refused);
    expect(await evaluated(own, '--judge', judge)).toMatchObject({ code: 0 });
    expect(await evaluated(own)).toMatchObject({ code: 0 });
    writeFileSync(judge, before);
    expect(await evaluated(own)).toMatchObject(refused);
    expect(await evaluated(own, '--judge', judge)).toMatchObject({ code: 0 });

    writeFileSync(join(dirname(reward), 'part.mjs'), 'export const part = 2;\n');
    expect(await run('fork', own, '--at', '2', '--out', newPath('fork'))).toMatchObject(refused);
    writeFileSync(join(dirname(reward), 'part.mjs'), 'export const part = 1;\n');
  });

  test('need --trust on a machine that has not seen them, which remembers them', async () => {
    freshState();
    expect(await run('train', '--resume', own, '--max-steps', '4')).toMatchObject(refused);
    expect(await run('fork', own, '--at', '2', '--out', newPath('fork'))).toMatchObject(refused);
    expect(await evaluated(own)).toMatchObject(refused);
    await expect(library.train({ maxSteps: 4 }, { resume: own })).rejects.toMatchObject({ code: 'BAD_INPUT', message: expect.stringContaining('trust: true') as string }); // prettier-ignore
    expect(await evaluated(own, '--trust')).toMatchObject({ code: 0 });
    expect(await evaluated(own)).toMatchObject({ code: 0 });
    expect(await run('train', '--resume', own, '--max-steps', '4')).toMatchObject(refused);
    expect(await run('train', '--resume', own, '--max-steps', '4', '--trust')).toMatchObject({ code: 0 });
    expect(await run('fork', own, '--at', '2', '--out', newPath('fork'))).toMatchObject({ code: 0 });
  });

  test('two processes at once note both', async () => {
    const folder = freshState();
    const files = [1, 2, 3, 4].map((i) => moduleAt(newPath(`judge${i}`) + '.mjs', newPath('mark')));
    const lines = linesFile([{ gold: '1', pred: '1' }]);
    const all = await Promise.all(files.map((file) => run('verify', '--judge', file, lines)));
    expect(all.map(({ code }) => code)).toEqual([0, 0, 0, 0]);
    expect(readdirSync(folder)).toHaveLength(4);
  });

  test('a home that cannot be written stops no run', async () => {
    process.env.XDG_STATE_HOME = '/proc/acoer-state';
    const out = newPath('unwritten');
    const { code, stderr } = await run('train', ...SMALL, '--set', `judge=${judge}`, '--out', out);
    expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringMatching(/cannot be kept that you named .*judge\.mjs .*--trust/) as string }); // prettier-ignore
    freshState();
  });

  test('--trust goes with a run', async () => {
    expect(await run('train', ...SMALL, '--trust')).toMatchObject({ code: 2 });
    expect(await run('eval', '--model', 'tiny', '--benchmark', 'tiny', '--trust')).toMatchObject({ code: 2 });
    await expect(library.train({}, { trust: true })).rejects.toMatchObject({ code: 'BAD_CONFIG' });
  });
});
