/** The shipped CUDA kernels: made from their sources, and the ones that the loader's table asks for. */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { hasCompiler } from '../helpers/emulator';
import { needs } from '../helpers/needs';
import { temporaryFolder } from '../helpers/fake-libtorch';

jest.setTimeout(30 * 60_000);

const ROOT = join(__dirname, '..', '..');
const SOURCES = join(ROOT, 'native', 'cuda', 'kernels');
const SHIPPED = join(ROOT, 'assets', 'kernels');

interface KernelSet {
  driverAtLeast: number;
  files: Record<string, { bytes: number }>;
  kernels: string[];
}
const SETS = JSON.parse(readFileSync(join(SHIPPED, 'kernels.json'), 'utf8')) as Record<string, KernelSet>;

// Where a compiler of the recorded version is, the script makes its set anew and compares the bytes.
// ACOER_NVRTC names the folder of the one that makes the set of older drivers.
test('both sets of kernels are those of their sources', () => {
  const script = join(ROOT, 'scripts', 'gpu', 'build-kernels.mjs');
  const nvrtc = process.env.ACOER_NVRTC === undefined ? [] : ['--nvrtc', process.env.ACOER_NVRTC];
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, '--check', ...nvrtc], {
    encoding: 'utf8',
  });
  expect({ status, output: stdout + stderr }).toEqual({
    status: 0,
    output: expect.stringContaining('the kernels are up to date'),
  });
});

test('the drivers and sizes are those of the documentation', () => {
  expect(Object.entries(SETS).map(([name, { driverAtLeast }]) => [name, driverAtLeast])).toEqual([
    ['kernels.fatbin', 580],
    ['cuda12', 525],
  ]);
  const sizes = Object.values(SETS).map(({ files }) =>
    Object.values(files).reduce((sum, { bytes }) => sum + bytes, 0),
  );
  const docs = readFileSync(join(ROOT, 'docs', 'gpu.md'), 'utf8');
  for (const bytes of sizes) expect(docs).toContain(`${(bytes / 1e6).toFixed(1)} MB`);
});

needs('g++', hasCompiler).test('their kernels are those of table.h', () => {
  const folder = temporaryFolder();
  const source = join(folder, 'names.cpp');
  writeFileSync(
    source,
    `#include <cstdio>
     #include "table.h"
     using namespace acoer::cuda;
     int main() { for (const auto& kernel : kKernels) std::printf("%s %s\\n", kernel.name, widerKernel(kernel.name).c_str()); }`,
  );
  const program = join(folder, 'names');
  const { status, stderr } = spawnSync('g++', ['-std=c++20', '-I', SOURCES, '-o', program, source], {
    encoding: 'utf8',
  });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  const table = spawnSync(program, { encoding: 'utf8' })
    .stdout.trim()
    .split('\n')
    .map((line) => line.trim().split(' '));
  const wider = new Map(table.map(([name, next]) => [name!, next]));
  for (const [title, count] of [
    ['kernels.fatbin', 6],
    ['cuda12', 18],
  ] as const) {
    const made = new Set(SETS[title]!.kernels);
    expect([...made].filter((name) => !wider.has(name))).toEqual([]);
    // What a set leaves out, a kernel of it does.
    const leftOut = [...wider.keys()].filter((name) => !made.has(name));
    expect([title, leftOut.length]).toEqual([title, count]);
    for (const name of leftOut) {
      let does: string | undefined = name;
      while (does !== undefined && !made.has(does)) does = wider.get(does);
      expect([name, does]).toEqual([name, expect.any(String)]);
    }
  }
});
