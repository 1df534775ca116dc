/** The shipped CUDA kernels: made from the sources beside them, and the ones that the loader's table asks for. */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { hasCompiler } from '../helpers/emulator';
import { temporaryFolder } from '../helpers/fake-libtorch';

jest.setTimeout(30 * 60_000);

const ROOT = join(__dirname, '..', '..');
const KERNELS = join(ROOT, 'native', 'cuda', 'kernels');

// Where nvcc of the recorded version is, the script makes the fatbin anew and compares the bytes.
test('kernels.fatbin is that of its sources', () => {
  const script = join(ROOT, 'scripts', 'gpu', 'build-kernels.mjs');
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, '--check'], {
    encoding: 'utf8',
  });
  expect({ status, output: stdout + stderr }).toEqual({
    status: 0,
    output: expect.stringContaining('kernels.fatbin is up to date'),
  });
});

(hasCompiler ? test : test.skip)('its kernels are those of table.h', () => {
  const folder = temporaryFolder();
  const source = join(folder, 'names.cpp');
  writeFileSync(
    source,
    `#include <cstdio>
     #include "table.h"
     int main() { for (const auto& kernel : acoer::cuda::kKernels) std::puts(kernel.name); }`,
  );
  const program = join(folder, 'names');
  const { status, stderr } = spawnSync('g++', ['-std=c++20', '-I', KERNELS, '-o', program, source], {
    encoding: 'utf8',
  });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  const { stdout } = spawnSync(program, { encoding: 'utf8' });
  const { kernels } = JSON.parse(readFileSync(join(KERNELS, 'kernels.json'), 'utf8')) as {
    kernels: string[];
  };
  expect(stdout.trim().split('\n').sort()).toEqual(kernels);
});
