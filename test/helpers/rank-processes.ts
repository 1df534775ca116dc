/** The ranks of a run as processes, and whether they have made what one process makes. */
import { type ChildProcess, spawn, type SpawnOptions } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { readCompletions } from '../../src/run';
import { builtCli, ROOT } from './cli';

/** Of a run of seconds. */
const SETTINGS = {
  ...{ preset: 'tiny', promptsPerStep: 3, numGenerations: 4, threads: 1, maxCompletionLength: 40 },
  ...{ evalProblems: 2, evalSampledProblems: 0, completionsSteps: 1, learningRate: 2e-3, saveSteps: 4 },
  maxSteps: 8,
};

/** A folder with the commands of docs/ranks.md: `acoer`, and mine.yaml with the settings. */
export function exampleFolder(parent: string, name: string): string {
  const folder = join(parent, name);
  mkdirSync(folder);
  writeFileSync(join(folder, 'mine.yaml'), JSON.stringify(SETTINGS));
  writeFileSync(join(folder, 'acoer'), `#!/bin/sh\nexec "${process.execPath}" "${builtCli()}" "$@"\n`, {
    mode: 0o755,
  });
  return folder;
}

/** The one command of docs/ranks.md that `pattern` finds. */
export function example(pattern: RegExp): string {
  const lines = readFileSync(join(ROOT, 'docs', 'ranks.md'), 'utf8').split('\n');
  const [found, ...others] = lines.filter((line) => pattern.test(line));
  if (found === undefined || others.length > 0) throw new Error(`docs/ranks.md: not one line is ${pattern}`);
  return found.replace(/ +#.*/, '');
}

export interface Started {
  child: ChildProcess;
  /** Its exit code, or the signal that ended it. */
  ended: Promise<number | NodeJS.Signals>;
  /** What it has printed. */
  text: () => string;
}

const children = new Set<ChildProcess>();

/** Kills what a failed test has left. */
export function killAll(): void {
  for (const child of children) child.kill('SIGKILL');
}

function started(command: string, words: readonly string[], options: SpawnOptions): Started {
  const env = { ...process.env, OMP_WAIT_POLICY: 'passive', ...options.env };
  const child = spawn(command, words, { ...options, env, stdio: ['ignore', 'pipe', 'pipe'] });
  children.add(child);
  let text = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (more: string) => (text += more));
  const ended = new Promise<number | NodeJS.Signals>((resolve) =>
    child.once('close', (code, signal) => {
      children.delete(child);
      resolve(code ?? signal!);
    }),
  );
  return { child, ended, text: () => text };
}

const SET = Object.entries(SETTINGS).filter(([name]) => name !== 'preset');
const WORDS = ['--preset', SETTINGS.preset, ...SET.flatMap(([name, value]) => ['--set', `${name}=${value}`])];

/** `acoer ...words` */
export const startCommand = (words: readonly string[], env: NodeJS.ProcessEnv = {}): Started =>
  started(process.execPath, [builtCli(), ...words], { env });

/** `acoer train ...words` */
export const startTrain = (words: readonly string[], env: NodeJS.ProcessEnv = {}): Started =>
  startCommand(['train', ...words], env);

/** A new run with the settings. */
export const start = (words: readonly string[], env: NodeJS.ProcessEnv = {}): Started =>
  startTrain([...WORDS, ...words], env);

/** A line of shell in a folder of `exampleFolder`. */
export const startLine = (line: string, folder: string, path: readonly string[] = []): Started =>
  started('bash', ['-c', `exec ${line}`], {
    cwd: folder,
    env: { PATH: [folder, ...path, process.env.PATH].join(delimiter) },
  });

export function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}

/** A run whose ranks are processes of the test. */
export async function startRanks(
  size: number,
  words: (rank: number) => readonly string[],
  more: (rank: number) => NodeJS.ProcessEnv = () => ({}),
): Promise<Started[]> {
  const port = String(await freePort());
  return Array.from({ length: size }, (_, rank) =>
    start(words(rank), {
      ...{ RANK: String(rank), WORLD_SIZE: String(size), MASTER_ADDR: '127.0.0.1', MASTER_PORT: port },
      ...{ ACOER_RANKS_TOKEN: 'a token', ACOER_RANKS_TIMEOUT: '6', ...more(rank) },
    }),
  );
}

/** The whole lines of a run's metrics: one may be just being written. */
export const lines = (run: string) =>
  readFileSync(join(run, 'metrics.jsonl'), 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Record<string, number>);

/** Waits until the run has made so many steps, or the process has ended. */
export async function untilStep(run: string, step: number, { child }: Started): Promise<void> {
  const made = () => existsSync(join(run, 'metrics.jsonl')) && lines(run).length >= step;
  while (child.exitCode === null && child.signalCode === null && !made()) await sleep(50);
}

const CLOCKED = /^(step_time$|time\/|memory\/|ranks\/|micro_batches$)|per_second/;

export const hashOf = (path: string): string => createHash('sha256').update(readFileSync(path)).digest('hex');

const weights = (run: string) => {
  const full = join(run, 'final', 'model.safetensors');
  return hashOf(existsSync(full) ? full : join(run, 'final', 'adapter_model.safetensors'));
};

/** A run's completions and weights are equal to the bit, its metrics to the rounding of sums in float64. */
export async function expectSame(run: string, reference: string): Promise<void> {
  const [found, expected] = [lines(run), lines(reference)];
  expect(found).toHaveLength(expected.length);
  expected.forEach((line, i) => {
    for (const [name, value] of Object.entries(line)) {
      if (!CLOCKED.test(name))
        expect([name, Math.abs(found[i]![name]! - value)]).toEqual([name, expect.closeTo(0, 9)]);
    }
  });
  for (const name of readdirSync(join(reference, 'completions'))) {
    const [own, other] = await Promise.all(
      [run, reference].map((path) => readCompletions(join(path, 'completions', name))),
    );
    expect(own).toEqual(other);
  }
  expect(weights(run)).toBe(weights(reference));
}
