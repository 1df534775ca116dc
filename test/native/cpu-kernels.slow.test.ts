/** `ACOER_CPU_KERNELS`: which products a CPU computes with. The products themselves: native/test/bf16_products.cpp. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BenchResult } from '../../src/bench';
import { builtCli } from '../helpers/cli';

const folder = mkdtempSync(join(tmpdir(), 'acoer-cpu-kernels-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function acoer(kernels: string, ...words: string[]) {
  const env = { ...process.env, ACOER_CPU_KERNELS: kernels };
  return spawnSync(process.execPath, [builtCli(), ...words], { env, encoding: 'utf8' });
}

const run = join(folder, 'run');
const refusal = acoer('abacus', 'train', '--out', run);

test('kernels that the machine does not have are refused before anything is written', () => {
  expect(refusal.status).toBe(2);
  expect(refusal.stderr).toMatch(/^acoer: ACOER_CPU_KERNELS is "abacus"; this machine has base(, \w+)*\n$/m);
  expect(existsSync(run)).toBe(false);
});

const names = /this machine has (.*)/.exec(refusal.stderr)?.[1]?.split(', ') ?? [];

test.each(names)('a step in bfloat16 with %s: trainer and sampler agree', (name) => {
  const sizes = ['--prompts', '1', '--group', '2', '--new-tokens', '24'];
  const once = ['--repeats', '1', '--warmup', '0', '--json'];
  const { status, stdout } = acoer(name, 'bench', 'step', '--dtype', 'bfloat16', ...sizes, ...once);
  expect(status).toBe(0);
  const { logprobGap } = JSON.parse(stdout.trim().split('\n').at(-1)!) as BenchResult;
  expect(logprobGap!.mean).toBeLessThan(0.02);
});
