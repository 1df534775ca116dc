/** The doctor: every fact has a line, every problem a command, and nothing is changed. */
import { existsSync, readFileSync } from 'node:fs';
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

test('what the comparisons of kernels found has a line each, and a note where a kernel is wrong', () => {
  const madeWith = { card: 'RTX', dtype: 'bfloat16', hiddenSize: 2048, headDim: 128 };
  const figure = (fault: string) => ({ kernel: 'norm_bf16', family: 'decode', error: 0, allowed: 0, fault });
  const check = (figures: object[], crash: string | null = null) =>
    JSON.stringify({ madeWith, figures, crash });
  const name = (digit: string) => `acoer/gpu-check/${digit.repeat(64)}.json`;
  const cache = writeTree(temporaryFolder(), {
    [name('1')]: check([figure(''), figure('')]),
    [name('2')]: check([figure(''), figure('writes beside its result')]),
    [name('3')]: check([], 'SIGSEGV'),
    [name('4')]: check([]).slice(0, 20),
    'acoer/gpu-check/notes.txt': 'of somebody else',
  });
  const report = lib.examine({ ...auto, PATH: temporaryFolder(), XDG_CACHE_HOME: cache }, null);
  const of = 'RTX, bfloat16, hidden size 2048, heads of 128';
  const lines = lib.reportText(report).split('\n');
  expect(lines.filter((line) => line.startsWith('self-check'))).toEqual([
    `self-check   ${of}: 2 comparisons agree with libtorch's operations`,
    `self-check   ${of}: norm_bf16 writes beside its result`,
    `self-check   ${of}: ended with SIGSEGV; none is used`,
  ]);
  expect(report.notes).toContain(
    `acoer's CUDA kernels on ${of}: norm_bf16 writes beside its result: please report ${join(cache, name('2'))}.`,
  );
});

test('a LIBTORCH that does not do is a problem', () => {
  const LIBTORCH = writeTree(temporaryFolder(), libtorchFiles('2.4.0'));
  const report = lib.examine({ PATH: temporaryFolder(), LIBTORCH, XDG_CACHE_HOME: LIBTORCH });
  expect(report.problems).toContainEqual(
    expect.stringMatching(/^LIBTORCH=.* is libtorch 2\.4\.0, but acoer builds with/),
  );
  expect(lib.reportText(report)).toContain('problem: LIBTORCH=');
});

describe("acoer's CUDA kernels", () => {
  /** The doctor on a machine with one card. */
  const reportOf = (driver: string, name: string, capability: string) => {
    const folder = temporaryFolder();
    fakeProgram(
      folder,
      'nvidia-smi',
      `case "$1" in *compute_cap*) echo "${capability}";; *) echo "${name}, 15360";; esac`,
    );
    return lib.examine({ ...auto, PATH: folder, XDG_CACHE_HOME: folder }, driver);
  };

  test.each([
    ['580.65.06', '8.6', 'those for drivers of 580 and newer, which have never run on a card'],
    ['580.65.06', '12.0', 'those for drivers of 580 and newer, which have never run on a card'],
    ['550.54.14', '8.9', 'those for drivers of 525 to 579, which have never run on a card'],
    ['525.60.13', '9.0', 'those for drivers of 525 to 579, which have never run on a card'],
    ['550.54.14', 'N/A', 'those for drivers of 525 to 579, which have never run on a card'],
  ])('driver %s, compute capability %s', (driver, capability, kernels) => {
    const report = reportOf(driver, 'A card', capability);
    expect(report.nvidia.gpus[0]!.kernels).toBe(kernels);
    expect(lib.reportText(report)).toMatch(new RegExp(`^kernels +${kernels}$`, 'm'));
    expect(report.notes.join('\n')).not.toContain('CUDA kernels');
  });

  test.each([
    ['580.65.06', '7.5', 'need a card of compute capability 8.0 or newer; this one has 7.5'],
    ['570.86.10', '12.0', 'need NVIDIA driver 580 or newer on a card of compute capability 12.0; this driver is 570.86.10'], // prettier-ignore
    ['470.57.02', '8.6', 'need NVIDIA driver 525 or newer; this one is 470.57.02'],
  ])('driver %s, compute capability %s: none', (driver, capability, why) => {
    const report = reportOf(driver, 'Tesla T4', capability);
    const sentence = `acoer's CUDA kernels ${why}: libtorch's operations do their work`;
    expect(report.nvidia.gpus[0]!.kernels).toBe(sentence);
    expect(report.notes).toContain(`Tesla T4: ${sentence}.`);
  });

  test('the numbers are those that the engine goes by', () => {
    const source = readFileSync(
      join(__dirname, '..', 'native', 'core', 'kernels', 'gpu', 'card.cpp'),
      'utf8',
    );
    for (const number of ['driver 525 or newer', 'driver 580 or newer', 'capability 8.0 or newer'])
      expect(source).toContain(number);
    expect(source).toContain('kOldestCapability = 80, kNewestOfOlderSet = 90');
  });
});
