/** Runs of several processes: what one process would have made, and what becomes of them when a rank fails or is lost. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { readCompletions, readRunDirectory } from '../../src/run';
import { builtCli } from '../helpers/cli';

jest.setTimeout(300_000);

let cli: string;
let root: string;
beforeAll(() => {
  cli = builtCli();
  root = mkdtempSync(join(tmpdir(), 'acoer-ranks-'));
});
const children = new Set<ChildProcess>();
afterAll(() => {
  for (const child of children) child.kill('SIGKILL');
  rmSync(root, { recursive: true, force: true });
});

const SETTINGS = [
  ...['--preset', 'tiny', '--set', 'promptsPerStep=3', '--set', 'numGenerations=4', '--set', 'threads=1'],
  ...['--set', 'maxCompletionLength=40', '--set', 'evalProblems=2', '--set', 'evalSampledProblems=0'],
  ...['--set', 'completionsSteps=1', '--set', 'learningRate=2e-3', '--set', 'saveSteps=4'],
];

interface Started {
  child: ChildProcess;
  /** Its exit code, or the signal that ended it. */
  ended: Promise<number | NodeJS.Signals>;
  text: () => string;
}

function start(words: readonly string[], env: NodeJS.ProcessEnv = {}): Started {
  const child = spawn(process.execPath, [cli, 'train', ...words], {
    env: { ...process.env, OMP_WAIT_POLICY: 'passive', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
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

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}

/** A run whose ranks are processes of the test. */
async function startRanks(
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

const CLOCKED = /^(step_time$|time\/|memory\/|ranks\/|micro_batches$)|per_second/;
/** The whole lines: one may be just being written. */
const lines = (run: string) =>
  readFileSync(join(run, 'metrics.jsonl'), 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Record<string, number>);
const adapter = (run: string) =>
  createHash('sha256')
    .update(readFileSync(join(run, 'final', 'adapter_model.safetensors')))
    .digest('hex');
const statesOf = (run: string, step: number) =>
  (
    JSON.parse(
      readFileSync(join(run, 'checkpoints', `step-${String(step).padStart(6, '0')}`, 'state.json'), 'utf8'),
    ) as {
      loop: { rewardStates: unknown };
    }
  ).loop.rewardStates;

async function expectSame(run: string, reference: string): Promise<void> {
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
  expect(adapter(run)).toBe(adapter(reference));
}

/** The run of one process that the others are compared with. */
let straight: Promise<string> | undefined;
const oneProcess = () =>
  (straight ??= (async () => {
    const path = join(root, 'one');
    const one = start([...SETTINGS, '--out', path, '--max-steps', '8']);
    expect([await one.ended, one.text()]).toEqual([0, expect.any(String)]);
    return path;
  })());

test.each([2, 3])('--nproc %i makes the run of one process', async (size) => {
  const path = join(root, `nproc-${size}`);
  const run = start([...SETTINGS, '--out', path, '--max-steps', '8', '--nproc', String(size)]);
  expect([await run.ended, run.text()]).toEqual([0, expect.stringContaining(`run ${path}`)]);
  const reference = await oneProcess();
  await expectSame(path, reference);
  expect(statesOf(path, 8)).toEqual(statesOf(reference, 8));
  // What the others printed; they had nothing to say.
  expect(readFileSync(join(path, 'ranks', '1.log'), 'utf8')).toBe('');
});

test('a run is resumed by another number of processes', async () => {
  const path = join(root, 'resumed');
  const two = start([...SETTINGS, '--out', path, '--max-steps', '8', '--nproc', '2']);
  await untilStep(path, 3, two);
  two.child.kill('SIGTERM');
  expect([await two.ended, two.text()]).toEqual([
    130,
    expect.stringMatching(/Interrupted after step \d+; resume with/),
  ]);
  const after = readRunDirectory(path).checkpointSteps().at(-1)!;
  expect(after).toBeLessThan(8);
  const three = start(['--resume', path, '--nproc', '3']);
  expect([await three.ended, three.text()]).toEqual([0, expect.any(String)]);
  await expectSame(path, await oneProcess());
});

async function untilStep(run: string, step: number, { child }: Started): Promise<void> {
  while (child.exitCode === null && !(existsSync(join(run, 'metrics.jsonl')) && lines(run).length >= step))
    await sleep(50);
}

test('ranks that a launcher starts again go on with their run', async () => {
  const path = join(root, 'restarted');
  const again = (restarts: number) =>
    startRanks(
      2,
      () => [...SETTINGS, '--out', path, '--max-steps', '8'],
      () => ({ TORCHELASTIC_RUN_ID: 'job', TORCHELASTIC_RESTART_COUNT: String(restarts) }),
    );
  const first = await again(0);
  await untilStep(path, 3, first[0]!);
  first[1]!.child.kill('SIGKILL');
  expect([await first[0]!.ended, first[0]!.text()]).toEqual([1, expect.stringContaining('Rank 1')]);
  const second = await again(1);
  for (const { ended, text } of second) expect([await ended, text()]).toEqual([0, expect.any(String)]);
  await expectSame(path, await oneProcess());
});

const LONG = (path: string) => [...SETTINGS, '--set', 'evalProblems=0', '--out', path, '--max-steps', '400'];

test.each([0, 1, 2])('kill -9 of rank %i ends all others within seconds, by name', async (victim) => {
  const path = join(root, `killed-${victim}`);
  const ranks = await startRanks(3, () => LONG(path));
  await untilStep(path, 2, ranks[0]!);
  const { pid } = ranks[victim]!.child;
  const killedAt = Date.now();
  ranks[victim]!.child.kill('SIGKILL');
  const others = ranks.filter((_, rank) => rank !== victim);
  for (const other of others) {
    expect([await other.ended, other.text()]).toEqual([
      1,
      expect.stringMatching(
        new RegExp(`Rank ${victim} \\(host .*, pid ${pid}\\) has ended without a word.*at step \\d+`),
      ),
    ]);
  }
  expect(Date.now() - killedAt).toBeLessThan(15_000);
  // Rank 0, if it was not the one, has saved the run.
  if (victim !== 0) expect(readRunDirectory(path).checkpointSteps().at(-1)).toBe(lines(path).length);
});

test.each([0, 1])(
  'a stopped rank %i is lost after the time-out, and when it wakes it ends and writes nothing',
  async (victim) => {
    const path = join(root, `stopped-${victim}`);
    const ranks = await startRanks(2, () => LONG(path));
    await untilStep(path, 2, ranks[0]!);
    const { child } = ranks[victim]!;
    child.kill('SIGSTOP');
    const other = ranks[1 - victim]!;
    expect([await other.ended, other.text()]).toEqual([
      1,
      expect.stringMatching(
        new RegExp(`Rank ${victim} \\(host .*, pid ${child.pid}\\) has not been heard for \\d+ s`),
      ),
    ]);
    const before = lines(path).length;
    await sleep(2_000);
    child.kill('SIGCONT');
    expect(await ranks[victim]!.ended).toBe(1);
    expect(ranks[victim]!.text()).toMatch(/was stopped, or cut off, for \d+ s|has ended without a word/);
    expect(lines(path).length).toBe(before);
  },
);

test('a rank that works three times longer than the limit for lost ones ends nothing', async () => {
  const path = join(root, 'patient');
  const module = join(root, 'late.mjs');
  writeFileSync(
    module,
    `let late = process.env.RANK === '1';
     export default async () => {
       if (late) await new Promise((resolve) => setTimeout(resolve, 15_000));
       late = false;
       return 1;
     };`,
  );
  const reward = ['--set', `rewardModules.late=${module}`, '--reward', 'late', '--set', 'watchdogMs=5000'];
  const words = [...SETTINGS, ...reward, '--set', 'evalProblems=0', '--out', path, '--max-steps', '1'];
  const ranks = await startRanks(
    2,
    () => words,
    () => ({ ACOER_RANKS_TIMEOUT: '5' }),
  );
  for (const { ended, text } of ranks) expect([await ended, text()]).toEqual([0, expect.any(String)]);
});

test('SIGTERM to one rank: all end, and the run is saved', async () => {
  const path = join(root, 'terminated');
  const ranks = await startRanks(2, () => LONG(path));
  await untilStep(path, 2, ranks[0]!);
  ranks[1]!.child.kill('SIGTERM');
  for (const { ended, text } of ranks)
    expect([await ended, text()]).toEqual([130, expect.stringContaining('nterrupted')]);
  const saved = readRunDirectory(path).checkpointSteps().at(-1);
  expect(saved).toBe(lines(path).length);
});

test('when the process of --nproc is killed, its ranks save the run and end', async () => {
  const path = join(root, 'orphans');
  const parent = start([...LONG(path), '--nproc', '2']);
  await untilStep(path, 2, parent);
  parent.child.kill('SIGKILL');
  const until = Date.now() + 30_000;
  while (readRunDirectory(path).isLocked() && Date.now() < until) await sleep(100);
  expect(readRunDirectory(path).isLocked()).toBe(false);
  expect(readRunDirectory(path).checkpointSteps().at(-1)).toBe(lines(path).length);
});

test.each<[string, (rank: number) => readonly string[], (rank: number) => NodeJS.ProcessEnv, RegExp]>([
  [
    'another token',
    () => [],
    (rank) => ({ ACOER_RANKS_TOKEN: `token ${rank}` }),
    /does not know the run's token/,
  ],
  [
    'another setting',
    (rank) => ['--set', `seed=${rank}`],
    () => ({}),
    /Rank 1 differs from rank 0 in seed \(1, and on rank 0 0\)/,
  ],
  [
    'another size',
    () => [],
    (rank) => ({ WORLD_SIZE: String(2 + rank) }),
    /takes the run for one of 3 processes/,
  ],
])('%s on one rank is refused on all', async (_, words, env, message) => {
  const path = join(root, 'refused');
  const ranks = await startRanks(2, (rank) => [...LONG(path), ...words(rank)], env);
  for (const { ended, text } of ranks)
    expect([await ended, text()]).toEqual([2, expect.stringMatching(message)]);
  expect(existsSync(path)).toBe(false);
});

test('a second job on the port refuses itself, and the first goes on', async () => {
  const path = join(root, 'first');
  const port = String(await freePort());
  const job = (name: string) =>
    startRanks(
      2,
      () => LONG(join(root, name)),
      () => ({ MASTER_PORT: port }),
    );
  const first = await job('first');
  await untilStep(path, 1, first[0]!);
  const [one, two] = await job('second');
  expect([await one!.ended, one!.text()]).toEqual([
    2,
    expect.stringMatching(/^acoer: Port \d+ of 127.0.0.1 is in use/m),
  ]);
  expect([await two!.ended, two!.text()]).toEqual([
    2,
    expect.stringMatching(/^acoer: Rank 1 of the run at .* is taken/m),
  ]);
  expect(existsSync(join(root, 'second'))).toBe(false);
  const reached = lines(path).length;
  await untilStep(path, reached + 1, first[0]!);
  expect(first.map(({ child }) => child.exitCode)).toEqual([null, null]);
  first.forEach(({ child }) => child.kill('SIGTERM'));
  for (const { ended } of first) expect(await ended).toBe(130);
});
