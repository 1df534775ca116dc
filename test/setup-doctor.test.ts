/** The doctor: every fact has a line, every problem a command, and nothing is changed. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fakeProgram, libtorchFiles, temporaryFolder, writeTree } from './helpers/fake-libtorch';

const loadModules = async () => ({
  ...(await import('../scripts/lib/doctor.mjs')),
  ...(await import('../scripts/lib/doctor-text.mjs')),
});
let lib: Awaited<ReturnType<typeof loadModules>>;
beforeAll(async () => {
  lib = await loadModules();
});

/** Whatever flavour this checkout was set up with. */
const auto = { ACOER_LIBTORCH_FLAVOUR: 'auto' };

test('on a machine without tools it says what to install, and makes no cache', () => {
  const folder = temporaryFolder();
  const report = lib.examine({ ...auto, PATH: folder, XDG_CACHE_HOME: join(folder, 'cache') }, null);
  const sentences = [...report.problems, ...report.notes].join('\n');
  for (const tool of ['cmake', 'a C++ compiler', 'make', 'python3'])
    expect(sentences).toContain(`${tool} is missing: run`);
  expect(report.libtorch).toEqual({ wanted: 'cpu', why: 'no NVIDIA driver here', found: null });
  expect(existsSync(join(folder, 'cache'))).toBe(false);
  expect(JSON.parse(JSON.stringify(report))).toEqual(report);
});

test('missing build tools stop nobody whose addon works', () => {
  const folder = temporaryFolder();
  const report = lib.examine({ ...auto, PATH: folder, XDG_CACHE_HOME: folder });
  const blamed = report.problems.some((problem) => problem.startsWith('cmake is missing'));
  expect(blamed).toBe(report.addon.state !== 'ok');
});

test('GPUs are listed, and one that the build does not use is pointed out', () => {
  const folder = temporaryFolder();
  fakeProgram(folder, 'nvidia-smi', 'echo "NVIDIA RTX A6000, 49140"');
  const report = lib.examine({ ...auto, PATH: folder, XDG_CACHE_HOME: folder }, '580.65.06');
  expect(report.nvidia).toMatchObject({
    driver: '580.65.06',
    gpus: [{ name: 'NVIDIA RTX A6000', memoryBytes: 49140 * 2 ** 20 }],
  });
  expect(report.libtorch.wanted).toBe('cu130');
  expect(lib.reportText(report)).toMatch(/^gpu +NVIDIA RTX A6000, 51\.53 GB$/m);
});

test('a LIBTORCH that does not do is a problem', () => {
  const LIBTORCH = writeTree(temporaryFolder(), libtorchFiles('2.4.0'));
  const report = lib.examine({ PATH: temporaryFolder(), LIBTORCH, XDG_CACHE_HOME: LIBTORCH });
  expect(report.problems).toContainEqual(
    expect.stringMatching(/^LIBTORCH=.* is libtorch 2\.4\.0, but acoer builds with/),
  );
  expect(lib.reportText(report)).toContain('problem: LIBTORCH=');
});
