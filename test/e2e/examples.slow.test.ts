/** The repository's examples, unchanged, with the built package. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Config } from '../../src/config';
import { ROOT } from '../helpers/cli';

const folder = mkdtempSync(join(tmpdir(), 'acoer-examples-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('the custom loss trains the embedded model', () => {
  const args = [join(ROOT, 'examples', 'loss.mjs'), join(folder, 'loss')];
  const printed = execFileSync(process.execPath, args, { encoding: 'utf8' });
  expect(printed).toMatch(
    /^step 1: loss -?\d\.\d{4}, gradient \d\.\d{3}\nstep 2: loss -?\d\.\d{4}, gradient \d\.\d{3}\n$/,
  );
});

test('the custom sampler sees every completion of each step', () => {
  const file = join(folder, 'completions.jsonl');
  const args = [join(ROOT, 'examples', 'sampler.mjs'), file, join(folder, 'sampler')];
  const printed = execFileSync(process.execPath, args, { encoding: 'utf8' });
  expect(printed).toMatch(/^step 1: [\d.]+ thinking tokens\nstep 2: [\d.]+ thinking tokens\n$/);
  const lines = readFileSync(file, 'utf8').trim().split('\n');
  const rows = lines.map((line) => JSON.parse(line) as { policyVersion: number });
  const config = readFileSync(join(folder, 'sampler', 'config.json'), 'utf8');
  const { promptsPerStep, numGenerations } = JSON.parse(config) as Config;
  expect(rows).toHaveLength(2 * promptsPerStep * numGenerations);
  expect(new Set(rows.map(({ policyVersion }) => policyVersion)).size).toBe(2);
});

test('the custom model family: the same weights under other names give the same tokens', () => {
  const printed = execFileSync(process.execPath, [join(ROOT, 'examples', 'model-family.mjs')], {
    encoding: 'utf8',
  });
  const [, embedded, renamed] = /^embedded: ([\d ]+)\nrenamed: ([\d ]+)\n$/.exec(printed)!;
  expect(renamed).toBe(embedded);
});

test('the custom reward and sink work as modules of the command', () => {
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
