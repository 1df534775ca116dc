/** `acoer plan`, and `acoer train` rejecting a run that does not fit. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Plan } from '../../src/plan';
import { acoer } from '../helpers/cli';
import { textModel } from '../helpers/text-model';

test('plans for a named GPU without a model on disk, and says that nothing was measured', async () => {
  const { code, stdout } = await acoer('plan', '--preset', 'paper', '--device-name', 'a6000');
  expect(code).toBe(0);
  expect(stdout).toMatch(/1720\.6 M parameters in bfloat16/);
  expect(stdout).toMatch(/KV cache \(\d+ slots\)/);
  expect(stdout).toMatch(/GPU-hours at the limit/);
  expect(stdout).toMatch(/These GPU figures have not been measured/);
});

test('prompt lengths of missing data are assumed, and reported as such', async () => {
  const words = ['plan', '--preset', 'tiny', '--device-name', 'a6000'];
  const absent = await acoer(...words, '--set', 'dataset=someone/data');
  expect(absent.stderr).toMatch(
    /not on this machine, so prompts of 150 tokens are assumed; use --prompt-tokens/,
  );
  expect((await acoer(...words)).stderr).not.toContain('assumed');
});

test('--json prints the plan as an object', async () => {
  const { stdout } = await acoer('plan', '--preset', 'paper', '--device-name', 'H200', '--json');
  const plan = JSON.parse(stdout) as Plan;
  expect(plan.fits).toBe(true);
  expect(plan.memory.kv!.slots).toBe(16);
});

test('mistakes exit with 2 and one sentence', async () => {
  expect(await acoer('plan', '--device-name', 'B200')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('There is no device "B200"'),
  });
  expect(await acoer('plan', '--device-name', 'A100', '--lengths', 'x')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--lengths x'),
  });
});

test('train rejects a run that cannot fit before loading, with the numbers, and leaves no folder', async () => {
  const model = textModel();
  const out = join(model, 'run');
  const settings = ['--set', 'kvBytes=1000', '--set', 'evalProblems=0', '--set', 'evalSampledProblems=0'];
  const words = ['train', '--preset', 'tiny', '--out', out, '--set', `model=${model}`, ...settings];
  const { code, stderr } = await acoer(...words);
  expect(code).toBe(2);
  expect(stderr).toMatch(/does not fit on .*: a full-length completion needs [\d.]+ GB of KV cache/);
  expect(stderr).not.toContain('parameters,');
  expect(existsSync(out)).toBe(false);
});
