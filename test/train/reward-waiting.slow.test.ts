/** Rewards that wait in a system call, where no thread can be ended: run and process end all the same. */
import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { builtCli, ended, ROOT } from '../helpers/cli';

const root = mkdtempSync(join(tmpdir(), 'acoer-waiting-'));
const MODULE = join(ROOT, 'test', 'fixtures', 'reward-modules', 'waits.cjs');
let waiting: string;
let runs = 0;
beforeEach(() => (waiting = join(root, `child-${runs++}`)));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const alive = (pid: number): boolean => existsSync(`/proc/${pid}`);

/** The process that the reward waits for, once it has started. */
async function child(): Promise<number> {
  while (!existsSync(waiting)) await delay(50);
  return Number(readFileSync(waiting, 'utf8'));
}

/** The result of `program`, which must end without waiting for the reward's child. */
async function outcome(program: ChildProcessWithoutNullStreams, meanwhile?: () => void) {
  const end = ended(program);
  const pid = await child();
  try {
    meanwhile?.();
    const result = await end;
    expect(alive(pid)).toBe(true);
    return result;
  } finally {
    process.kill(pid, 'SIGKILL');
  }
}

const node = (...words: string[]) =>
  spawn(process.execPath, words, {
    cwd: ROOT,
    env: { ...process.env, NODE_OPTIONS: '', WAITS_FOR: waiting },
  });

const SETTINGS = {
  preset: 'tiny',
  maxCompletionLength: 8,
  evalProblems: 0,
  evalSampledProblems: 0,
  maxSteps: 1,
  reward: 'mine',
};

function train(...more: string[]) {
  const { preset, ...values } = { ...SETTINGS, ...{ 'rewardModules.mine': MODULE } };
  const settings = Object.entries(values).flatMap(([name, value]) => ['--set', `${name}=${value}`]);
  return node(builtCli(), 'train', '--preset', preset, ...settings, '--out', `${waiting}-run`, ...more);
}

const LATE = /Reward "mine" failed on sample 0 of prompt 0 .*: no answer within 2000 ms/;

test('a reward from a file: the command ends with the error', async () => {
  const { code, stderr } = await outcome(train('--set', 'rewardTimeoutMs=2000'));
  expect(stderr).toMatch(LATE);
  expect(stderr).not.toContain('watchdog');
  expect(code).toBe(1);
});

test('on Ctrl-C the command ends as interrupted', async () => {
  const program = train();
  const { code, stderr } = await outcome(program, () => program.kill('SIGINT'));
  expect(stderr).toMatch(/Interrupted after step 0; resume with: acoer train --resume/);
  expect(code).toBe(130);
});

test('a reward that waits while being loaded is refused', async () => {
  const { code, stderr } = await outcome(
    node(
      '-e',
      `const { openRewardModule } = require('./dist/life/modules/reward-module.js');
      const setup = { name: 'mine', path: ${JSON.stringify(join(ROOT, 'test', 'fixtures', 'reward-modules', 'waits-at-once.cjs'))}, params: {}, maxLength: 8 };
      openRewardModule(setup, 1000, 2000).catch((error) => console.error(error.message));`,
    ),
  );
  expect(stderr).toMatch(/Cannot use the reward "mine" .*did not load within 2000 ms/);
  expect(code).toBe(0);
});

const OUT = `out: process.env.WAITS_FOR + '-run'`;

test('a program that trains gets the error and can end, with its own exit code', async () => {
  const program = `
    const { train } = require('./dist/index.js');
    const given = { ...${JSON.stringify(SETTINGS)}, rewardModules: { mine: ${JSON.stringify(MODULE)} }, rewardTimeoutMs: 2000 };
    train(given, { ${OUT} }).then((run) => run.result()).catch((error) => {
      console.error(error.code, error.message);
      process.exitCode = 7;
    });`;
  const { code, stderr } = await outcome(node('-e', program));
  expect(stderr).toMatch(/^REWARD_FAILED /m);
  expect(stderr).toMatch(LATE);
  expect(code).toBe(7);
});

test("a reward that is a function blocks the run's own thread: the watchdog's thread ends the process", async () => {
  const program = `
    const { train, registerReward } = require('./dist/index.js');
    registerReward('mine', require(${JSON.stringify(MODULE)}));
    const watch = { watchdogMs: 2000, watchdogPhaseMs: { loading: 60000, reward: 2000 } };
    train({ ...${JSON.stringify(SETTINGS)}, ...watch }, { ${OUT}, exitWhenBlocked: true }).then((run) => run.result());`;
  const { code, stderr } = await outcome(node('-e', program));
  expect(stderr).toMatch(
    /No progress in reward of step 1 .*The main thread is blocked, so the process was ended/,
  );
  expect(code).toBe(1);
});
