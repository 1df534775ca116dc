/** Steps whose numbers really overflow, on the embedded model, and `acoer replay` on their dumps. */
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { replay, train, type ReplayReport, type TrainSettings } from '../../src/train';
import { registerReward } from '../../src/rewards/registry';
import { readMetrics, readRollbacks, RunDirectory } from '../../src/run';
import { acoer, ended, spawnAcoer } from '../helpers/cli';

const folder = mkdtempSync(join(tmpdir(), 'acoer-replay-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const settings = {
  preset: 'tiny',
  device: 'cpu',
  threads: 1,
  maxSteps: 4,
  promptsPerStep: 4,
  warmupRatio: 0,
  lrSchedulerType: 'constant',
  evalProblems: 0,
  evalSampledProblems: 0,
  saveSteps: 1,
} as const;

async function run(name: string, more: TrainSettings): Promise<RunDirectory> {
  const out = join(folder, name);
  await (await train({ ...settings, ...more }, { out })).result();
  return new RunDirectory(out);
}

/** Runs `acoer replay DUMP --json`, which must reproduce the step. */
async function reproduced(dump: string, ...words: string[]): Promise<ReplayReport> {
  const { code, stdout, stderr } = await acoer('replay', dump, '--json', ...words);
  expect(stderr).toBe('');
  const report = JSON.parse(stdout) as ReplayReport;
  expect(report.differences).toEqual([]);
  expect(report.found).toEqual(report.recorded);
  expect(code).toBe(0);
  return report;
}

const applied = (of: RunDirectory) => readMetrics(of.metrics()).map((line) => line.update_applied);

/** Scale of the rewards, large enough to overflow only in step 2. */
let unit = 1;
let alwaysLarge = true;
let calls = 0;
registerReward('large', ({ correct, text }) => {
  const step = Math.floor(calls++ / (4 * 4)) + 1;
  const large = step === 2 || (alwaysLarge && step > 2);
  return (Number(correct) + text.length / 1000) * (large ? unit : 1);
});

test('overflowed weights: first in a pending batch, then in every generation; each is reproduced', async () => {
  // Products of the weights after the first update exceed 32 bits; its batch has a second update to come.
  const made = await run('weights', { learningRate: 1e30, numIterations: 2 });
  expect(applied(made)).toEqual([1, 0, 0, 0]);
  expect(readdirSync(made.dumps()).sort()).toEqual(['step-000002', 'step-000003', 'step-000004']);
  const left = await reproduced(made.dump(2), '--each');
  expect(left.recorded).toMatchObject({ phase: 'accumulate', what: 'the log-prob', token: 0 });
  expect(left.recorded.sample).not.toBeNull();
  expect(left.microBatches).toEqual([
    { samples: expect.any(Number), tokens: expect.any(Number), loss: null },
  ]);
  // The weights are at fault, so every completion is found.
  expect(left.offenders).toHaveLength(left.microBatches[0]!.samples);
  for (const step of [3, 4]) {
    const generated = await reproduced(made.dump(step));
    expect(generated.recorded).toMatchObject({ phase: 'generate', token: 0 });
    expect(generated.recorded.promptIndex).not.toBeNull();
  }
  const each = await reproduced(made.dump(3), '--each');
  expect(each.offenders).toHaveLength(4 * 4);
});

test('an overflowed gradient: the replay names the parameter', async () => {
  [unit, alwaysLarge, calls] = [1e200, false, 0];
  const made = await run('gradient', { reward: 'large', scaleRewards: 'none', microBatchTokens: 400 });
  expect(applied(made)).toEqual([1, 0, 1, 1]);
  const report = await reproduced(made.dump(2), '--each');
  expect(report.recorded.phase).toBe('step');
  expect(report.microBatches.length).toBeGreaterThan(1);
  for (const { loss } of report.microBatches) expect(Math.abs(loss!)).toBeGreaterThan(1e150);
  expect(report.gradient!.parameter).toMatch(/lora_[AB]/);
  expect(report.offenders!.length).toBeGreaterThan(0);
  const text = await acoer('replay', made.dump(2));
  expect(text.stdout).toContain(`the first is ${report.gradient!.parameter}`);
  expect(text.stdout).toMatch(/\nreproduced, bit for bit\n$/);
});

test('overflowed advantages are reproduced from the rewards', async () => {
  [unit, alwaysLarge, calls] = [1.2e308, false, 0];
  const made = await run('advantages', { reward: 'large' });
  expect(applied(made)).toEqual([1, 0, 1, 1]);
  const report = await reproduced(made.dump(2), '--each');
  expect(report.recorded.phase).toBe('advantages');
  expect(report.offenders![0]).toMatchObject({
    what: expect.stringMatching(/the advantage .*is not finite/),
  });
});

test('a rollback continues from the previous checkpoint, with other completions', async () => {
  [unit, alwaysLarge, calls] = [1e200, false, 0];
  const made = await run('rollback', {
    reward: 'large',
    scaleRewards: 'none',
    nonFinitePolicy: 'rollback',
  });
  expect(applied(made)).toEqual([1, 1, 1, 1]);
  expect(readRollbacks(made)).toEqual([
    expect.objectContaining({
      number: 1,
      from: 2,
      to: 1,
      pressure: 1,
      reason: expect.stringContaining('norm'),
    }),
  ]);
  await reproduced(made.dump(2));
});

test('repeated rollbacks because of overflowing weights end the run with the cause of the overflow', async () => {
  const failed = run('ends', { learningRate: 1e30, nonFinitePolicy: 'rollback', maxRollbacks: 2 });
  await expect(failed).rejects.toMatchObject({ code: 'NOT_FINITE' });
  await expect(failed).rejects.toThrow('maxRollbacks = 2');
  const made = new RunDirectory(join(folder, 'ends'));
  expect(readRollbacks(made).map(({ to }) => to)).toEqual([0, 0]);
  await reproduced(made.dump(2));
});

test('a number that differs from the dump is reported as not reproduced', async () => {
  [unit, alwaysLarge, calls] = [1e200, false, 0];
  const made = await run('other', { reward: 'large', scaleRewards: 'none' });
  // The dump with the weights of another step and valid checksums, as a different set-up might produce.
  const changed = join(folder, 'changed');
  cpSync(made.dump(2), changed, { recursive: true });
  cpSync(join(made.checkpoint(4), 'adapter_model.safetensors'), join(changed, 'adapter_model.safetensors'));
  const files = readdirSync(changed).filter((name) => name !== 'SHA256SUMS');
  const sums = execFileSync('sha256sum', files, { cwd: changed, encoding: 'utf8' });
  writeFileSync(join(changed, 'SHA256SUMS'), sums);
  const { code, stdout } = await acoer('replay', changed);
  expect(code).toBe(1);
  expect(stdout).toMatch(/not reproduced\n.*micro-batch/);
});

test('as a process: exit codes, and a float64 model', async () => {
  const made = await run('process', {
    learningRate: 1e300,
    dtype: 'float64',
    maxSteps: 2,
    maxNonFiniteSteps: 3,
  });
  const good = await ended(spawnAcoer('replay', made.dump(2)));
  expect(good.stderr).toBe('');
  expect(good.code).toBe(0);
  const bad = await ended(spawnAcoer('replay', made.checkpoint(1)));
  expect(bad).toMatchObject({ code: 2, stderr: expect.stringContaining('is not a dump of a refused step') });
  const files = readdirSync(made.dump(2)).map((name) =>
    readFileSync(join(made.dump(2), name)).toString('base64'),
  );
  const again = await replay(made.dump(2));
  expect(again.reproduced).toBe(true);
  expect(
    readdirSync(made.dump(2)).map((name) => readFileSync(join(made.dump(2), name)).toString('base64')),
  ).toEqual(files);
  expect(existsSync(join(made.path, 'lock.json'))).toBe(false);
});
