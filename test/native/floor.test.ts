/** What the built addons ask of the system: no newer libraries than the prebuilt package promises, and no fixed path. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

import { needs } from '../helpers/needs';

const loadModules = async () => ({
  ...(await import('../../scripts/lib/elf.mjs')),
  ...(await import('../../scripts/lib/paths.mjs')),
});
let lib: Awaited<ReturnType<typeof loadModules>>;
beforeAll(async () => {
  lib = await loadModules();
});

/** Newer compilers and C libraries give functions newer versions; packages are made where these are not. */
function asOldAsDebian12(): boolean {
  const text = (program: string, ...words: string[]) =>
    spawnSync(program, words, { encoding: 'utf8' }).stdout ?? '';
  const compiler = Number.parseInt(text('c++', '-dumpversion'), 10);
  const glibc = Number(/ 2\.(\d+)$/m.exec(text('getconf', 'GNU_LIBC_VERSION'))?.[1]);
  return compiler <= 12 && glibc <= 36 && text('objdump', '--version') !== '';
}
const old = needs("binutils, and a compiler and C library no newer than Debian 12's", asOldAsDebian12());

for (const name of ['acoer.node', 'lock.node', 'ranks.node']) {
  old.test(`${name} runs with glibc 2.34 and the libstdc++ of GCC 11`, () => {
    const { versions } = lib.readNeeds(join(lib.releaseFolder, name));
    expect(versions.filter((version) => version.startsWith('GLIBC')).length).toBeGreaterThan(1);
    expect(lib.aboveFloor(versions)).toEqual([]);
  });
}

const binutils = needs('binutils', spawnSync('objdump', ['--version']).status === 0);
binutils.test('libtorch is found beside the addon, and locks need none', () => {
  const needed = (name: string) => lib.readNeeds(join(lib.releaseFolder, name));
  for (const name of ['acoer.node', 'ranks.node']) {
    expect(needed(name)).toMatchObject({
      libraries: expect.arrayContaining(['libtorch_cpu.so', 'libc10.so']),
      runPath: '$ORIGIN/libtorch',
    });
  }
  expect(needed('lock.node').runPath).toBeNull();
  expect(needed('lock.node').libraries.filter((name) => /torch|c10|gomp/.test(name))).toEqual([]);
});

binutils.test('the ranks make nothing of a class that only a stand-in of its header describes', () => {
  const file = join(lib.releaseFolder, 'ranks.node');
  const { stdout } = spawnSync('nm', ['-C', file], { encoding: 'utf8', maxBuffer: 1 << 26 });
  expect(stdout).toMatch(/vtable for c10d::ReduceOp$/m);
  expect(stdout).not.toMatch(/vtable for (gloo::|c10d::ProcessGroupGloo)/);
  // Of Gloo itself the addon calls nothing: only what libtorch makes of it.
  expect(stdout).not.toMatch(/ U gloo::/);
});

test('versions are compared part by part', () => {
  const low = ['GLIBC_2.4', 'GLIBC_2.34', 'GLIBCXX_3.4', 'GLIBCXX_3.4.9', 'GLIBCXX_3.4.29', 'CXXABI_1.3'];
  expect(lib.aboveFloor([...low, 'GCC_3.0', 'GOMP_4.0', 'OMP_5.0'])).toEqual([]);
  const high = ['GLIBC_2.35', 'GLIBC_2.38', 'GLIBCXX_3.4.30', 'CXXABI_1.3.14'];
  expect(lib.aboveFloor([...low, ...high])).toEqual(high);
});
