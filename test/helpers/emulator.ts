/** Compiles and runs the tests of the CUDA kernels over the emulator (`native/test/emu`). */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { needs } from './needs';

const NATIVE = join(__dirname, '..', '..', 'native');

// The kernels read the same bytes as vectors and as elements, as they may in CUDA: no strict aliasing. A misaligned
// vector, which a GPU refuses, ends the program.
const FLAGS = [
  ...['-std=c++20', '-O1', '-g1', '-Wall', '-Wextra', '-Werror', '-Wno-unknown-pragmas'],
  ...['-fno-strict-aliasing', '-fsanitize=address,alignment', '-fno-sanitize-recover=alignment'],
];

export const hasCompiler = spawnSync('g++', ['--version']).status === 0;

/** Compiles these files of `native/test/emu` and the emulator's `main.cpp`; the path of the program. */
function buildEmulated(...sources: string[]): string {
  const program = join(mkdtempSync(join(tmpdir(), 'acoer-emulated-')), 'emulated-kernels');
  const folder = join(NATIVE, 'test', 'emu');
  const files = ['main.cpp', ...sources].map((name) => join(folder, name));
  const includes = ['-I', folder, '-I', join(NATIVE, 'cuda')];
  const { status, stderr } = spawnSync('g++', [...FLAGS, ...includes, '-o', program, ...files], {
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`g++ failed:\n${stderr}`);
  return program;
}

/** Runs the tests whose names hold `filter`, with bug `planted` in the kernels (0 for none). */
function runEmulated(
  program: string,
  filter: string,
  planted = 0,
): { status: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync(program, ['--planted', String(planted), filter], {
    encoding: 'utf8',
    // Threads that an error left half-run keep what they had allocated.
    env: { ...process.env, ASAN_OPTIONS: 'detect_leaks=0' },
  });
  return { status, output: stdout + stderr };
}

/** A bug that `ACOER_PLANTED` of `native/cuda/kernels` can plant, and the prefix of the tests that must find it. */
export type PlantedBug = [tests: string, bug: string, number: number];

/** Suite of the tests in `sources`: each family passes, and fails with any of its planted bugs. */
export function describeEmulated(
  title: string,
  sources: readonly string[],
  families: readonly string[],
  planted: readonly PlantedBug[],
): void {
  jest.setTimeout(30 * 60_000);
  needs('g++', hasCompiler).describe(title, () => {
    let program: string;
    beforeAll(() => {
      program = buildEmulated(...sources);
    });
    afterAll(() => {
      if (program) rmSync(dirname(program), { recursive: true });
    });

    test.each(families)('%s', (family) => {
      expect(runEmulated(program, `${family}_`)).toEqual({
        status: 0,
        output: expect.stringMatching(/(\d+) of \1 tests passed/),
      });
    });

    test.each(planted)('%s: %s (%d) is found', (tests, _bug, number) => {
      const { status, output } = runEmulated(program, tests, number);
      expect(status).toBe(1);
      expect(output).toMatch(/^FAIL|ERROR: AddressSanitizer/m);
    });
  });
}
