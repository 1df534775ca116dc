/**
 * Exit code 0 only when the command is done, and no hook of a user's keeps a command from ending: every command with a
 * hook that never answers or loops is asked to end.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { readMetrics } from '../../src/run';
import { builtCli, ended, ROOT, spawnAcoer } from '../helpers/cli';

const folder = mkdtempSync(join(tmpdir(), 'acoer-exit-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;

function file(name: string, text: string): string {
  const path = join(folder, `${files++}-${name}`);
  writeFileSync(path, text);
  return path;
}

const set = (values: Record<string, string | number>) =>
  Object.entries(values).flatMap(([name, value]) => ['--set', `${name}=${value}`]);

const SMALL = [
  '--threads',
  '1',
  ...set({ promptsPerStep: 2, numGenerations: 4, maxCompletionLength: 24 }),
  ...set({ evalProblems: 0, evalSampledProblems: 0, saveSteps: 1 }),
];
const LONG = set({ rewardTimeoutMs: 600_000, sinkTimeoutMs: 600_000 });

const lockOf = (run: string) => existsSync(join(run, 'lock.json'));
const index = join(dirname(builtCli()), '..', 'index.js');

/** What node does with a program of a user's. */
const program = (code: string, ...flags: string[]) =>
  ended(
    spawn(
      process.execPath,
      [...flags, file('program.mjs', `import { train } from ${JSON.stringify(index)};\n${code}`)],
      {
        cwd: folder,
      },
    ),
  );

/** A run of two steps, to resume, fork and evaluate. */
let finished: string;
beforeAll(async () => {
  finished = join(folder, 'finished');
  const { code, stderr } = await ended(spawnAcoer('train', '--out', finished, ...SMALL, '--max-steps', '2'));
  expect({ code, stderr }).toMatchObject({ code: 0 });
});

type Hook = 'sink' | 'judge' | 'reward';

/** A module that writes a file once it is called, and then hangs. */
function hanging(hook: Hook, how: 'never answers' | 'loops') {
  const mark = join(folder, `${files++}-mark`);
  const hang = how === 'loops' ? 'for (;;);' : 'return new Promise(() => {});';
  const body = `{ writeFileSync(${JSON.stringify(mark)}, ''); ${hang} }`;
  const code = hook === 'sink' ? `() => ({ step() ${body} })` : `() => ${body}`;
  const path = file(`${hook}.mjs`, `import { writeFileSync } from 'node:fs';\nexport default ${code};`);
  return { mark, path };
}

const hookSettings = (hook: Hook, path: string): string[] =>
  ({
    sink: ['--set', `sinks=["${path}"]`],
    judge: ['--set', `judge=${path}`],
    reward: ['--set', 'reward=own', '--set', `rewardModules.own=${path}`],
  })[hook];

/** Asks the process to end once the hook has been called; its exit code, and how long it took. */
async function terminated(child: ReturnType<typeof spawnAcoer>, mark: string) {
  const end = ended(child);
  let over = false;
  void end.then(() => (over = true));
  while (!existsSync(mark) && !over) await wait(50);
  // The hook is known to hang only a moment after its mark.
  await wait(200);
  child.kill('SIGTERM');
  return { ...(await end), signal: (child as ChildProcess).signalCode };
}

const HOOKS: Hook[] = ['sink', 'judge', 'reward'];
const HOW = ['never answers', 'loops'] as const;
const EVERY = HOOKS.flatMap((hook) => HOW.map((how) => [hook, how] as const));

describe('SIGTERM ends', () => {
  test.each(EVERY)('acoer train with a %s that %s, and the run can be resumed', async (hook, how) => {
    const { mark, path } = hanging(hook, how);
    const run = join(folder, `train ${hook} ${how}`);
    const words = ['train', '--out', run, ...SMALL, ...LONG, '--max-steps', '2', ...hookSettings(hook, path)];
    const { code, stderr } = await terminated(spawnAcoer(...words), mark);
    expect({ code, stderr }).toMatchObject({ code: 130 });
    expect(stderr).toContain('resume with: acoer train --resume');
    expect(lockOf(run)).toBe(false);
  });

  test.each(EVERY)('acoer fork with a %s that %s', async (hook, how) => {
    const { mark, path } = hanging(hook, how);
    const run = join(folder, `fork ${hook} ${how}`);
    const words = ['fork', finished, '--at', '1', '--out', run, ...LONG, ...hookSettings(hook, path)];
    const { code, stderr } = await terminated(spawnAcoer(...words), mark);
    expect({ code, stderr }).toMatchObject({ code: 130 });
    expect(lockOf(run)).toBe(false);
  });

  test.each(HOW)('acoer train --resume with a sink that %s', async (how) => {
    const { mark, path } = hanging('sink', how);
    const words = ['train', '--resume', finished, ...LONG, '--max-steps', '4', ...hookSettings('sink', path)];
    const { code, stderr } = await terminated(spawnAcoer(...words), mark);
    expect({ code, stderr }).toMatchObject({ code: 130 });
    expect(lockOf(finished)).toBe(false);
  });

  const COMPLETIONS = file('completions.jsonl', '{"gold": "1", "pred": "\\\\boxed{1}"}\n');

  test.each(
    HOW.flatMap((how) => [
      [
        how,
        'eval',
        '--model',
        'tiny',
        '--benchmark',
        'tiny',
        '--problems',
        '2',
        '--out',
        join(folder, `eval ${how}`),
      ],
      [how, 'verify', COMPLETIONS],
    ]),
  )('a judge that %s in acoer %s', async (how, ...words) => {
    const { mark, path } = hanging('judge', how);
    const { code, stderr } = await terminated(spawnAcoer(...words, '--judge', path), mark);
    expect({ code, stderr }).toMatchObject({ code: 130 });
  });

  test.each(HOW)('acoer reward with a reward that %s', async (how) => {
    const { mark, path } = hanging('reward', how);
    const line = { step: 0, group: 0, correct: true, thinkingTokens: 7, totalTokens: 9, format: true };
    const lines = file('lines.jsonl', `${JSON.stringify(line)}\n`);
    const words = ['reward', lines, '--reward', 'own', '--set', `rewardModules.own=${path}`];
    const { signal } = await terminated(spawnAcoer(...words), mark);
    expect(signal).toBe('SIGTERM');
  });

  test.each([
    ['verify'],
    ['generate', '--model', 'tiny', '--threads', '1'],
    ['score', '--model', 'tiny', '--threads', '1'],
  ])('acoer %s that waits for its input', async (...words) => {
    const child = spawnAcoer(...words);
    const end = ended(child);
    // More blank lines than a pipe holds: all are written only when the command reads its input.
    await new Promise<void>((resolve) => child.stdin.write('\n'.repeat(1 << 20), () => resolve()));
    child.kill('SIGTERM');
    expect(await end).toMatchObject({ code: 130 });
  });

  test.each(['sink', 'judge', 'reward'] as const)(
    'acoer train whose %s loops while it is loaded',
    async (hook) => {
      const mark = join(folder, `${files++}-mark`);
      const path = file(
        'loads.mjs',
        `import { writeFileSync } from 'node:fs'; writeFileSync(${JSON.stringify(mark)}, ''); for (;;); export default 1;`,
      );
      const words = [
        'train',
        '--out',
        join(folder, `loading ${hook}`),
        ...SMALL,
        ...hookSettings(hook, path),
      ];
      const { code, stderr } = await terminated(spawnAcoer(...words), mark);
      expect({ code, stderr }).toMatchObject({ code: 130 });
    },
  );
});

test('a sink that never answers is left out, and the run ends with 0', async () => {
  const { path } = hanging('sink', 'never answers');
  const run = join(folder, 'left out');
  const limit = set({ sinkTimeoutMs: 500 });
  const words = [
    'train',
    '--out',
    run,
    ...SMALL,
    ...limit,
    '--max-steps',
    '2',
    ...hookSettings('sink', path),
  ];
  const { code, stderr } = await ended(spawnAcoer(...words));
  expect({ code, stderr }).toMatchObject({ code: 0 });
  expect(stderr).toContain('failed at step and gets nothing more: no answer within 500 ms');
  expect(readMetrics(join(run, 'metrics.jsonl'))).toHaveLength(2);
});

test('a sink that keeps a handle does not keep the finished command', async () => {
  const path = file('handle.mjs', 'setInterval(() => {}, 1e6); export default () => ({});');
  const run = join(folder, 'handle');
  const words = ['train', '--out', run, ...SMALL, '--max-steps', '1', ...hookSettings('sink', path)];
  expect(await ended(spawnAcoer(...words))).toMatchObject({ code: 0 });
});

/** `acoer ...words` with code that runs first in its process. */
const after = (code: string, ...words: string[]) =>
  ended(spawn(process.execPath, ['--require', file('first.cjs', code), builtCli(), ...words], { cwd: ROOT }));

describe('an error that nothing caught', () => {
  test.each([
    ['a timer', "throw new Error('connection lost')"],
    ['a promise', "void Promise.reject(new Error('connection lost'))"],
  ])('from %s stops a run as a signal does: checkpoint, one sentence, exit 1', async (name, stray) => {
    const run = join(folder, `stray ${name}`);
    const metrics = JSON.stringify(join(run, 'metrics.jsonl'));
    const code = `const { readFileSync } = require('node:fs');
      const lines = () => { try { return readFileSync(${metrics}, 'utf8').split('\\n').length; } catch { return 0; } };
      const timer = setInterval(() => { if (lines() > 2) { clearInterval(timer); ${stray}; } }, 1);
      timer.unref();`;
    const quiet = set({ saveSteps: 0 });
    const result = await after(code, 'train', '--out', run, ...SMALL, ...quiet, '--max-steps', '400');
    expect(result.code).toBe(1);
    expect(result.stderr).toContain('acoer: An error that nothing caught ends this command: connection lost');
    expect(result.stderr).toMatch(/Interrupted after step \d+; resume with: acoer train --resume/);
    expect(lockOf(run)).toBe(false);
    const steps = readMetrics(join(run, 'metrics.jsonl')).length;
    expect(readdirSync(join(run, 'checkpoints'))).toEqual([`step-${String(steps).padStart(6, '0')}`]);
  });

  test.each([
    ['verify', 'verify', '-'],
    ['reward', 'reward', '-', '--reward', 'acoer'],
  ])('ends acoer %s with 1', async (_, ...words) => {
    const code = `const timer = setInterval(() => {
      if (process.stdin.listenerCount('readable') === 0) return;
      clearInterval(timer);
      throw new Error('lost');
    }, 10);`;
    const result = await after(code, ...words);
    expect(result.stderr).toContain('An error that nothing caught ends this command: lost');
    expect(result.code).toBe(1);
  });
});

describe('the exit code is 1 when', () => {
  test('nothing is left to do before the command has ended', async () => {
    const code = `const { Command } = require(${JSON.stringify(require.resolve('commander'))});
      Command.prototype.parseAsync = () => new Promise(() => {});`;
    const { code: exit, stderr } = await after(code, 'plan');
    expect(stderr).toBe(
      'acoer: acoer plan did not finish: it still waits for an answer, and nothing is left in this process that could give one.\n',
    );
    expect(exit).toBe(1);
  });

  test('something else ends the process with 0', async () => {
    const { code, stderr } = await after(
      'setTimeout(() => process.exit(0), 100);',
      'train',
      ...SMALL,
      '--out',
      join(folder, 'exits'),
    );
    expect(code).toBe(1);
    expect(stderr).toContain('acoer: acoer train did not finish');
  });
});

describe('train() in a program', () => {
  const small = (out: string) =>
    `{ model: 'tiny', maxSteps: 2, promptsPerStep: 2, numGenerations: 2, maxCompletionLength: 8, evalProblems: 0, evalSampledProblems: 0, threads: 1 }, { out: ${JSON.stringify(out)} }`;

  test('that is never begun says so and frees its lock when the process ends', async () => {
    const run = join(folder, 'never begun');
    const { code, stderr } = await program(`await train(${small(run)});`);
    expect(stderr).toBe(
      `acoer: the run ${run} was opened and never begun, so it has trained nothing: iterate over it, or await its result()\n`,
    );
    expect(code).toBe(0);
    expect(lockOf(run)).toBe(false);
  });

  test('or when nothing refers to it any more', async () => {
    const run = join(folder, 'collected');
    const code = `import { existsSync } from 'node:fs';
      await (async () => { await train(${small(run)}); })();
      for (let i = 0; i < 200 && existsSync(${JSON.stringify(join(run, 'lock.json'))}); i++) {
        globalThis.gc();
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
      console.log('lock', existsSync(${JSON.stringify(join(run, 'lock.json'))}));`;
    const { stdout, stderr } = await program(code, '--expose-gc');
    expect(stdout).toBe('lock false\n');
    expect(stderr.match(/was opened and never begun/g)).toHaveLength(1);
  });

  test('whose process ends in the middle says where, and frees its lock', async () => {
    const run = join(folder, 'left in the middle');
    const code = `const run = await train(${small(run)}); await run.next(); process.exit(0);`;
    const { stderr } = await program(code);
    expect(stderr).toContain(
      `acoer: the run ${run} did not end: the process ended after step 1; resume with:`,
    );
    expect(lockOf(run)).toBe(false);
  });

  test('that ended leaves nothing behind', async () => {
    const run = join(folder, 'ended');
    const code = `const run = await train(${small(run)});
      const open = process.listenerCount('exit');
      await run.result();
      console.log(open - process.listenerCount('exit'));`;
    const { stdout, stderr } = await program(code);
    expect({ stdout, stderr }).toEqual({ stdout: '1\n', stderr: '' });
  });
});
