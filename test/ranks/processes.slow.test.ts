/** Runs of several processes: what one process would have made, and what becomes of them when a rank fails or is lost. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { readRunDirectory } from '../../src/run';
import { builtCli } from '../helpers/cli';
import { listensOn, pidOfRank } from '../helpers/proc';
import {
  example,
  exampleFolder,
  expectSame,
  freePort,
  hashOf,
  killAll,
  lines,
  start,
  startCommand,
  startLine,
  startRanks,
  startTrain,
  untilStep,
} from '../helpers/rank-processes';

jest.setTimeout(300_000);

let root: string;
beforeAll(() => {
  builtCli();
  root = mkdtempSync(join(tmpdir(), 'acoer-ranks-'));
});
afterAll(() => {
  killAll();
  rmSync(root, { recursive: true, force: true });
});

const statesOf = (run: string, step: number) =>
  (
    JSON.parse(
      readFileSync(join(run, 'checkpoints', `step-${String(step).padStart(6, '0')}`, 'state.json'), 'utf8'),
    ) as {
      loop: { rewardStates: unknown };
    }
  ).loop.rewardStates;

/** The run of one process that the others are compared with. */
let straight: Promise<string> | undefined;
const oneProcess = () =>
  (straight ??= (async () => {
    const path = join(root, 'one');
    const one = start(['--out', path]);
    expect([await one.ended, one.text()]).toEqual([0, expect.any(String)]);
    return path;
  })());

test.each([2, 3])('--nproc %i makes the run of one process', async (size) => {
  const folder = exampleFolder(root, `nproc-${size}`);
  const path = join(folder, 'runs', 'mine');
  const command = example(/^acoer train mine\.yaml .*--out/).replace('--nproc 2', `--nproc ${size}`);
  const run = startLine(command, folder);
  expect([await run.ended, run.text()]).toEqual([0, expect.stringContaining('run runs/mine\n')]);
  const reference = await oneProcess();
  await expectSame(path, reference);
  expect(statesOf(path, 8)).toEqual(statesOf(reference, 8));
  // What the others printed; they had nothing to say.
  expect(readFileSync(join(path, 'ranks', '1.log'), 'utf8')).toBe('');
});

test('a run is resumed by another number of processes', async () => {
  const folder = exampleFolder(root, 'resumed');
  const path = join(folder, 'runs', 'mine');
  const two = startLine(example(/^acoer train mine\.yaml .*--out/), folder);
  await untilStep(path, 3, two);
  two.child.kill('SIGTERM');
  expect([await two.ended, two.text()]).toEqual([
    130,
    expect.stringMatching(/Interrupted after step \d+; resume with/),
  ]);
  expect(readRunDirectory(path).checkpointSteps().at(-1)).toBeLessThan(8);
  const three = startLine(example(/^acoer train --resume/), folder);
  expect([await three.ended, three.text()]).toEqual([0, expect.any(String)]);
  await expectSame(path, await oneProcess());
});

test('--max-restarts: when a rank is killed all start again, and make the run of one process', async () => {
  const folder = exampleFolder(root, 'again');
  const run = startLine(example(/^acoer train .*--max-restarts/), folder);
  const runs = join(folder, 'runs');
  // The command names no folder, so only rank 0 knows it.
  const path = () => join(runs, existsSync(runs) ? (readdirSync(runs)[0] ?? '') : '');
  while (run.child.exitCode === null && !existsSync(join(path(), 'metrics.jsonl'))) await sleep(50);
  await untilStep(path(), 3, run);
  process.kill(pidOfRank(run.child.pid!, 1), 'SIGKILL');
  const again =
    /rank 1 was killed by SIGKILL: all ranks start again and go on with runs\/\S+ \(restart 1 of 3\)/;
  expect([await run.ended, run.text()]).toEqual([0, expect.stringMatching(again)]);
  expect(readdirSync(runs)).toHaveLength(1);
  await expectSame(path(), await oneProcess());
  // A run that is there is refused, which another start would not change.
  const refused = startTrain(['--preset', 'tiny', '--out', path(), '--nproc', '2', '--max-restarts', '3']);
  expect([await refused.ended, refused.text()]).toEqual([2, expect.not.stringContaining('start again')]);
});

test('a run is forked by another number of processes, which start again when one is killed', async () => {
  const run = await oneProcess();
  const fork = (name: string, ...words: string[]) =>
    startCommand(['fork', run, '--at', '4', '--seed', '7', '--out', join(root, name), ...words]);
  const alone = fork('fork');
  expect([await alone.ended, alone.text()]).toEqual([0, expect.any(String)]);
  const two = fork('fork-two', '--nproc', '2', '--max-restarts', '1');
  await untilStep(join(root, 'fork-two'), 5, two);
  process.kill(pidOfRank(two.child.pid!, 1), 'SIGKILL');
  expect([await two.ended, two.text()]).toEqual([
    0,
    expect.stringMatching(/all ranks start again and go on with \S*fork-two \(restart 1 of 1\)/),
  ]);
  await expectSame(join(root, 'fork-two'), join(root, 'fork'));
});

test('ranks that a launcher starts again go on with their run', async () => {
  const path = join(root, 'restarted');
  const again = (restarts: number) =>
    startRanks(
      2,
      () => ['--out', path],
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

test('all weights: a lost rank takes its moments along; the run goes on from its checkpoint with another number', async () => {
  const settings = ['--full', '--set', 'learningRate=1e-4', '--set', 'maxSteps=8'];
  const reference = join(root, 'full-one');
  const one = start([...settings, '--out', reference]);
  expect([await one.ended, one.text()]).toEqual([0, expect.any(String)]);
  const path = join(root, 'full');
  const two = await startRanks(2, () => [...settings, '--out', path]);
  await untilStep(path, 5, two[0]!);
  two[1]!.child.kill('SIGKILL');
  expect([await two[0]!.ended, two[0]!.text()]).toEqual([
    1,
    expect.stringMatching(/Rank 1 .* has ended without a word/),
  ]);
  expect(two[0]!.text()).toContain('The last checkpoint could not be written: ');
  expect(readRunDirectory(path).checkpointSteps().at(-1)! % 4).toBe(0);
  const three = startTrain(['--resume', path, '--nproc', '3']);
  expect([await three.ended, three.text()]).toEqual([0, expect.any(String)]);
  await expectSame(path, reference);
  const optimizer = (run: string) => hashOf(join(run, 'checkpoints', 'step-000008', 'optimizer.safetensors'));
  expect(optimizer(path)).toBe(optimizer(reference));
});

const LONG = (path: string) => ['--set', 'evalProblems=0', '--out', path, '--set', 'maxSteps=400'];

test('--max-restarts: the next failure ends all, with its code', async () => {
  const path = join(root, 'twice');
  const run = start([...LONG(path), '--nproc', '2', '--max-restarts', '1']);
  await untilStep(path, 2, run);
  process.kill(pidOfRank(run.child.pid!, 0), 'SIGKILL');
  // More than the first ranks have made.
  await untilStep(path, lines(path).length + 3, run);
  process.kill(pidOfRank(run.child.pid!, 0), 'SIGKILL');
  expect([await run.ended, run.text()]).toEqual([
    137,
    expect.stringMatching(
      /^acoer: rank 0 was killed by SIGKILL: all [^]*^acoer: rank 0 was killed by SIGKILL$/m,
    ),
  ]);
});

test('--max-restarts: what a guard of the run has ended stays ended', async () => {
  const words = ['--set', 'learningRate=1e30', '--set', 'nonFinitePolicy=stop'];
  const run = start([...words, '--out', join(root, 'guarded'), '--nproc', '2', '--max-restarts', '3']);
  expect([await run.ended, run.text()]).toEqual([1, expect.stringMatching(/Step \d was refused/)]);
  expect(run.text()).not.toContain('start again');
});

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
  // A beat, 1 s, until all know; then rank 0 saves, and serves the reason for 2.5 s, which is most of the rest.
  expect(Date.now() - killedAt).toBeLessThan(5_000);
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
  const words = [...reward, '--set', 'evalProblems=0', '--out', path, '--set', 'maxSteps=1'];
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

/** As /proc/net writes 127.0.0.1, also of a socket for both versions, and ::1. */
const LOOPBACK = /^(0{16}FFFF0000)?0100007F$|^0{24}01000000$/;

test('--nproc listens on this machine only, and when its process is killed, the ranks save the run and end', async () => {
  const path = join(root, 'orphans');
  const parent = start([...LONG(path), '--nproc', '2']);
  await untilStep(path, 2, parent);
  const pid = parent.child.pid!;
  const addresses = [pid, pidOfRank(pid, 0), pidOfRank(pid, 1)].map(listensOn);
  // The store, and each rank for the others.
  expect(addresses.map((own) => own.length > 0)).toEqual([false, true, true]);
  for (const address of addresses.flat()) expect(address).toMatch(LOOPBACK);
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
