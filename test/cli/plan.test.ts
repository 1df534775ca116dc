/** `acoer plan` and the refusal of `acoer train` on the command line. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Plan } from '../../src/plan';
import { acoer } from '../helpers/cli';
import { textModel } from '../helpers/text-model';

test('a named GPU is planned for without a model on disk, and says that nothing was measured', async () => {
  const { code, stdout } = await acoer('plan', '--preset', 'paper', '--device-name', 'a6000');
  expect(code).toBe(0);
  expect(stdout).toMatch(/1720\.6 M parameters in bfloat16/);
  expect(stdout).toMatch(/KV cache \(\d+ slots\)/);
  expect(stdout).toMatch(/GPU-hours at the limit/);
  expect(stdout).toMatch(/No GPU figure here has been measured by us/);
});

test('prompts of data that is not here are assumed, and that is said', async () => {
  const words = ['plan', '--preset', 'tiny', '--device-name', 'a6000'];
  const absent = await acoer(...words, '--set', 'dataset=someone/data');
  expect(absent.stderr).toMatch(/not on this machine: prompts of 150 tokens are assumed\. --prompt-tokens/);
  expect((await acoer(...words)).stderr).not.toContain('assumed');
});

test('--json gives the plan as an object', async () => {
  const { stdout } = await acoer('plan', '--preset', 'paper', '--device-name', 'H200', '--json');
  const plan = JSON.parse(stdout) as Plan;
  expect(plan.fits).toBe(true);
  expect(plan.memory.kv.slots).toBe(16);
});

test('mistakes are exit 2 with one sentence', async () => {
  expect(await acoer('plan', '--device-name', 'B200')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('there is no device "B200"'),
  });
  expect(await acoer('plan', '--device-name', 'A100', '--lengths', 'x')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--lengths x'),
  });
});

test('train refuses what cannot fit before loading, with the numbers, and leaves no folder', async () => {
  const model = textModel();
  const out = join(model, 'run');
  const settings = ['--set', 'kvBytes=1000', '--set', 'evalProblems=0', '--set', 'evalSampledProblems=0'];
  const words = ['train', '--preset', 'tiny', '--out', out, '--set', `model=${model}`, ...settings];
  const { code, stderr } = await acoer(...words);
  expect(code).toBe(2);
  expect(stderr).toMatch(/does not fit on .*: a completion of full length needs [\d.]+ GB of KV cache/);
  expect(stderr).not.toContain('parameters,');
  expect(existsSync(out)).toBe(false);
});
