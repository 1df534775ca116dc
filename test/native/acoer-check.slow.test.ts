/**
 * The core's own tests (`acoer-check`) on a CPU, among them decoding and training with the CUDA kernels, which an
 * emulator runs (`native/test/generate_gpu.cpp`, `train_gpu.cpp`). Compiles them against the core that `npm run build`
 * made; needs cmake and g++, and is skipped elsewhere.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';

import { needs } from '../helpers/needs';

const ROOT = join(__dirname, '..', '..');
const CORE = join(ROOT, 'native', 'build', 'libacoer_core.a');
/** A step of a 1.7B model: minutes on a CPU. */
const ON_A_GPU_ONLY = 'device_full_step_qwen3_1p7b';

const run = (program: string, ...words: string[]) => {
  const { status, stdout, stderr } = spawnSync(program, words, { encoding: 'utf8', maxBuffer: 2 ** 26 });
  return { status, output: stdout + stderr };
};
const libtorch = run('node', join(ROOT, 'scripts/setup.mjs'), '--print');
const ready =
  existsSync(CORE) &&
  libtorch.status === 0 &&
  ['cmake', 'g++'].every((name) => !run(name, '--version').status);

const build = mkdtempSync(join(tmpdir(), 'acoer-check-'));
afterAll(() => rmSync(build, { recursive: true, force: true }));

needs('cmake, g++ and a built core (npm run build)', ready).test(
  'every test of the core passes',
  () => {
    const options = [`-DLIBTORCH=${libtorch.output.trim()}`, `-DACOER_CORE=${CORE}`];
    const flags = ['-DACOER_ADDON=OFF', '-DACOER_CHECK=ON', ...options];
    const configured = run('cmake', '-S', join(ROOT, 'native'), '-B', build, ...flags);
    expect(configured).toMatchObject({ status: 0 });
    const jobs = String(Math.max(1, Math.floor(availableParallelism() / 2)));
    const built = run('cmake', '--build', build, '--target', 'acoer-check', '--parallel', jobs);
    expect({ ...built, output: built.output.match(/.*(?:error|warning):.*/g) }).toEqual({
      status: 0,
      output: null,
    });
    const program = join(build, 'acoer-check');
    const names = run(program, '--list').output.trim().split('\n');
    expect(names).toContain(ON_A_GPU_ONLY);
    const checked = run(program, ...names.filter((name) => name !== ON_A_GPU_ONLY));
    expect(checked.output.match(/^FAIL.*/gm)).toBeNull();
    expect(checked).toEqual({
      status: 0,
      output: expect.stringContaining(`${names.length - 1} of ${names.length - 1} tests passed`) as string,
    });
  },
  20 * 60_000,
);
