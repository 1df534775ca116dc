/** The examples of the repository, as they stand, over the built package. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT } from '../helpers/cli';

jest.setTimeout(120_000);

const folder = mkdtempSync(join(tmpdir(), 'acoer-examples-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('a loss of your own trains the embedded model', () => {
  const args = [join(ROOT, 'examples', 'loss.mjs'), join(folder, 'loss')];
  const printed = execFileSync(process.execPath, args, { encoding: 'utf8' });
  expect(printed).toMatch(
    /^step 1: loss -?\d\.\d{4}, gradient \d\.\d{3}\nstep 2: loss -?\d\.\d{4}, gradient \d\.\d{3}\n$/,
  );
});

test('a reward and a sink of your own, as modules of the command', () => {
  const out = join(folder, 'modules');
  const settings = [
    `rewardModules.brief=${join(ROOT, 'examples', 'reward.mjs')}`,
    `sinks=["${join(ROOT, 'examples', 'sink.mjs')}"]`,
    'maxSteps=2',
    'evalProblems=0',
    'evalSampledProblems=0',
  ].flatMap((setting) => ['--set', setting]);
  const command = [join(ROOT, 'dist', 'cli', 'main.js'), 'train', '--preset', 'tiny', '--reward', 'brief'];
  execFileSync(process.execPath, [...command, ...settings, '--out', out], { stdio: 'pipe' });
  expect(readFileSync(join(out, 'reward.csv'), 'utf8')).toMatch(/^1,[\d.]+,[\d.]+\n2,[\d.]+,[\d.]+\n$/);
});
