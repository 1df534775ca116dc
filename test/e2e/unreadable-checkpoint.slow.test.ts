/** Resuming when the newest checkpoint cannot be read: each kind of error, and what is left of the run. */
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findCheckpoint, RunDirectory } from '../../src/run';
import { builtCli } from '../helpers/cli';

const root = realpathSync(mkdtempSync(join(tmpdir(), 'acoer-unreadable-')));
chmodSync(root, 0o755);
const library = join(root, 'fail-reads.so');
const whole = join(root, 'whole');
let copies = 0;

const SHORT = { threads: 1, promptsPerStep: 2, numGenerations: 2, maxCompletionLength: 16, evalProblems: 0 };
const settings = { ...SHORT, evalSampledProblems: 0, saveSteps: 1, maxSteps: 3 };
const SETTINGS = Object.entries(settings).flatMap(([name, value]) => ['--set', `${name}=${value}`]);

const run = (words: string[], env: NodeJS.ProcessEnv = {}) =>
  spawnSync(process.execPath, [builtCli(), ...words], { encoding: 'utf8', env: { ...process.env, ...env } });

beforeAll(() => {
  const words = ['-shared', '-fPIC', '-o', library, join(__dirname, '..', 'helpers', 'fail-reads.c')];
  expect(spawnSync(process.env.CC ?? 'cc', words, { encoding: 'utf8' })).toMatchObject({
    status: 0,
    stderr: '',
  });
  expect(run(['train', '--out', whole, ...SETTINGS]).status).toBe(0);
  for (const name of ['final', 'summary.json']) rmSync(join(whole, name), { recursive: true });
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** A copy of the run, and the optimiser's file in its newest checkpoint. */
function copied(): { folder: string; newest: string; checkpoints: () => string[] } {
  const folder = join(root, `run-${copies++}`);
  cpSync(whole, folder, { recursive: true });
  const newest = join(folder, 'checkpoints', 'step-000003', 'optimizer.safetensors');
  return { folder, newest, checkpoints: () => readdirSync(join(folder, 'checkpoints')).sort() };
}

/** Finds the newest checkpoint as a user who is not root. */
async function found(folder: string) {
  const warnings: string[] = [];
  const isRoot = process.geteuid!() === 0;
  if (isRoot) {
    spawnSync('chown', ['-R', '65534', folder]);
    process.seteuid!(65534);
  }
  try {
    const checkpoint = await findCheckpoint(new RunDirectory(folder), (message) => warnings.push(message), 1);
    return { step: checkpoint?.step, warnings };
  } finally {
    if (isRoot) process.seteuid!(0);
  }
}

const ALL = ['step-000000', 'step-000001', 'step-000002', 'step-000003'].slice(1);
const FALLEN_BACK = ['damaged-step-000003', 'step-000001', 'step-000002'];

test.each<[string, RegExp, (file: string) => void]>([
  ['a folder', /is damaged \(optimizer\.safetensors cannot be read: it is a folder\)/, (file) => mkdirSync(file)],
  ['a link to itself', /is damaged \(optimizer\.safetensors cannot be read: .* circle\)/, (file) => symlinkSync(file, file)],
  ['nothing', /is damaged \(optimizer\.safetensors is missing\)/, () => undefined],
])('%s in place of a file', async (_, message, replace) => {
  const { folder, newest, checkpoints } = copied();
  rmSync(newest);
  replace(newest);
  const { step, warnings } = await found(folder);
  expect({ step, warnings }).toEqual({ step: 2, warnings: [expect.stringMatching(message)] });
  expect(warnings[0]).toMatch(/moved to .*damaged-step-000003; trying the one of step 2\.$/);
  expect(checkpoints()).toEqual(FALLEN_BACK);
}); // prettier-ignore

test('a file without permission: the one before, and an earlier one set aside is kept', async () => {
  const { folder, newest, checkpoints } = copied();
  mkdirSync(join(folder, 'checkpoints', 'damaged-step-000003'));
  chmodSync(newest, 0);
  const { step, warnings } = await found(folder);
  expect(step).toBe(2);
  expect(warnings).toEqual([
    expect.stringMatching(/^The checkpoint of step 3 cannot be used \(optimizer\.safetensors cannot be read: no permission\)/),
  ]);
  expect(checkpoints()).toEqual(['damaged-step-000003', 'damaged-step-000003-2', 'step-000001', 'step-000002']);
}); // prettier-ignore

test('no permission for any checkpoint: the sentence says so, and nothing is moved', async () => {
  const { folder, checkpoints } = copied();
  for (const name of checkpoints()) chmodSync(join(folder, 'checkpoints', name), 0);
  await expect(found(folder)).rejects.toMatchObject({
    code: 'BAD_INPUT',
    message: expect.stringMatching(
      /^The checkpoint of step 3 cannot be used \(SHA256SUMS cannot be read: no permission\), .* make the files readable for this user, and resume again\.$/,
    ),
  });
  for (const name of checkpoints()) chmodSync(join(folder, 'checkpoints', name), 0o755);
  expect(checkpoints()).toEqual(ALL);
  chmodSync(join(folder, 'checkpoints'), 0);
  await expect(found(folder)).rejects.toMatchObject({
    code: 'BAD_INPUT',
    message: expect.stringMatching(/checkpoints: no permission$/),
  });
});

describe('a disk that fails to read', () => {
  const resumed = (folder: string, file: string, count?: number) =>
    run(['train', '--resume', folder, '--max-steps', '4'], {
      LD_PRELOAD: library,
      FAIL_READS: file,
      ...(count !== undefined && { FAIL_COUNT: String(count) }),
    });

  test('for good: the checkpoint before, named', () => {
    const { folder, newest, checkpoints } = copied();
    const { status, stderr } = resumed(folder, newest);
    expect({ status, stderr }).toEqual({ status: 0, stderr: expect.stringMatching(/resum.* step 2/) });
    expect(stderr).toMatch(/step 3 cannot be used \(optimizer\.safetensors cannot be read: the disk reported an error\)/);
    expect(checkpoints()).toEqual([...FALLEN_BACK, 'step-000003', 'step-000004']);
  }); // prettier-ignore

  test('for a moment: nothing is moved, and the newest is used', () => {
    const { folder, newest, checkpoints } = copied();
    const { status, stderr } = resumed(folder, newest, 2);
    expect({ status, stderr }).toEqual({ status: 0, stderr: expect.stringMatching(/resum.* step 3/) });
    expect(checkpoints()).toEqual([...ALL, 'step-000004']);
  });
});
