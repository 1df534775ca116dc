/** Set-up's choices: flavour, which libtorch is taken, and the sentence for each thing that is missing. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import {
  archiveLabel,
  fakeProgram,
  libtorchFiles,
  realPython,
  temporaryFolder,
  wheelLabel,
  writeTree,
} from './helpers/fake-libtorch';

const loadModules = async () => ({
  ...(await import('../scripts/lib/versions.mjs')),
  ...(await import('../scripts/lib/inspect.mjs')),
  ...(await import('../scripts/lib/find.mjs')),
  ...(await import('../scripts/lib/tools.mjs')),
  ...(await import('../scripts/lib/probe.mjs')),
  ...(await import('../scripts/lib/build.mjs')),
  ...(await import('../scripts/lib/paths.mjs')),
});
let lib: Awaited<ReturnType<typeof loadModules>>;
beforeAll(async () => {
  lib = await loadModules();
});

const tree = (version: string, label: Record<string, string>): string =>
  writeTree(temporaryFolder(), libtorchFiles(version, label));

describe('the flavour', () => {
  test.each([
    [undefined, null, 'cpu', false],
    ['auto', null, 'cpu', false],
    [undefined, '580.65.06', 'cu130', false],
    [undefined, '575.10', 'cu128', false],
    [undefined, '535.183.01', 'cu126', false],
    [undefined, '470.1', 'cpu', false],
    ['cpu', '580.65.06', 'cpu', true],
    ['cu128', null, 'cu128', true],
  ])('asked %s with driver %s is %s', (asked, driver, flavour, wasAsked) => {
    expect(lib.chooseFlavour(asked, driver)).toMatchObject({ flavour, asked: wasAsked });
  });

  test('an unknown one is refused with the list', () => {
    expect(() => lib.chooseFlavour('cu99', null)).toThrow(
      /"cu99": set .* one of cpu, cu126, cu128, cu130 or auto/,
    );
  });

  test('the driver is read from the kernel module, else from nvidia-smi', () => {
    const folder = temporaryFolder();
    const proc = join(folder, 'version');
    writeFileSync(
      proc,
      'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n',
    );
    expect(lib.nvidiaDriver({ PATH: '' }, proc)).toBe('580.65.06');
    fakeProgram(folder, 'nvidia-smi', 'echo 570.12');
    expect(lib.nvidiaDriver({ PATH: folder }, '/nowhere')).toBe('570.12');
    fakeProgram(folder, 'nvidia-smi', 'echo "NVIDIA-SMI has failed"; exit 9');
    expect(lib.nvidiaDriver({ PATH: folder }, '/nowhere')).toBeNull();
    expect(lib.nvidiaDriver({ PATH: '' }, '/nowhere')).toBeNull();
  });
});

test.each([
  ['2.13.0', '2.11', true],
  ['2.9.1', '2.11', false],
  ['2.15.0', '2.15', true],
  ['3.0', '2.15', true],
  ['2.13', '2.13.0', true],
])('%s is at least %s: %s', (version, bound, expected) => {
  expect(lib.atLeast(version, bound)).toBe(expected);
});

describe('what a folder is', () => {
  test.each([
    ['archive', archiveLabel('2.13.0', 'cu126'), 'cu126'],
    ['wheel', wheelLabel('2.13.0', 'cpu'), 'cpu'],
    [
      'wheel without local part',
      { 'version.py': "__version__ = '2.13.0'\ncuda: Optional[str] = '13.0'\n" },
      'cu130',
    ],
    ['own build for CUDA', { 'lib/libtorch_cuda.so': '' }, 'cuda'],
    ['own build', {}, 'cpu'],
  ])('%s', (_, label, flavour) => {
    expect(lib.inspect(tree('2.13.0', label)).libtorch).toMatchObject({ version: '2.13.0', flavour });
  });

  test('the parent of an unpacked archive does as well', () => {
    const folder = temporaryFolder();
    writeTree(join(folder, 'libtorch'), libtorchFiles('2.12.0'));
    expect(lib.inspect(folder).libtorch).toMatchObject({ root: join(folder, 'libtorch'), version: '2.12.0' });
  });

  test.each([
    ['2.10.0', /is libtorch 2\.10\.0, but acoer builds with >= 2\.11 and < 2\.15/],
    ['2.15.1', /is libtorch 2\.15\.1/],
  ])('%s is out of range', (version, problem) => {
    expect(lib.inspect(tree(version, {})).problem).toMatch(problem);
  });

  test('what is missing is named', () => {
    const files = libtorchFiles('2.13.0');
    delete files['lib/libc10.so'];
    expect(lib.inspect(writeTree(temporaryFolder(), files)).problem).toBe(
      'is incomplete: lib/libc10.so is missing',
    );
    expect(lib.inspect(temporaryFolder()).problem).toBe('has no lib/libtorch_cpu.so');
    expect(lib.inspect('/nowhere').problem).toBe('does not exist');
  });
});

describe('the search', () => {
  const cpu = { flavour: 'cpu', asked: false };

  /** A machine with a Python torch of a version and a cached libtorch. */
  function machine(pythonVersion: string, pythonFlavour = 'cpu') {
    const folder = temporaryFolder();
    const files = libtorchFiles(pythonVersion, wheelLabel(pythonVersion, pythonFlavour));
    writeTree(join(folder, 'site', 'torch'), { ...files, '__init__.py': 'raise Exception("imported")' });
    const env: NodeJS.ProcessEnv = {
      PATH: process.env.PATH,
      PYTHON: realPython,
      PYTHONPATH: join(folder, 'site'),
      XDG_CACHE_HOME: join(folder, 'cache'),
    };
    const version = lib.pins.flavours.cpu!.version;
    const cached = lib.cachedFolder(env, 'cpu');
    writeTree(join(cached, 'torch'), libtorchFiles(version, archiveLabel(version, 'cpu')));
    writeFileSync(join(cached, lib.MANIFEST), JSON.stringify({ source: 'test' }));
    return { env, folder, cached };
  }

  test('LIBTORCH comes first', () => {
    const { env } = machine('2.12.0');
    const own = tree('2.11.0', {});
    expect(lib.findLibtorch({ ...env, LIBTORCH: own }, cpu)).toMatchObject({ root: own, source: 'LIBTORCH' });
  });

  test('a LIBTORCH that does not do is an error, not passed over', () => {
    const { env } = machine('2.12.0');
    const search = () => lib.findLibtorch({ ...env, LIBTORCH: '/nowhere' }, cpu);
    expect(search).toThrow(
      /^LIBTORCH=\/nowhere does not exist: set it .* or `unset LIBTORCH` and run `.*`\.$/,
    );
    expect(search).toThrow(expect.objectContaining({ code: 'SETUP' }));
  });

  test('then the Python torch, which is not imported', () => {
    const { env, folder } = machine('2.12.0');
    expect(lib.findLibtorch(env, cpu)).toMatchObject({
      root: join(folder, 'site', 'torch'),
      version: '2.12.0',
    });
  });

  test('then the cache, when the Python torch is too old; the reason is said', () => {
    const { env, cached } = machine('2.4.0');
    const notes: string[] = [];
    const found = lib.findLibtorch(env, cpu, (line) => notes.push(line));
    expect(found).toMatchObject({ root: join(cached, 'torch'), source: 'cache (test)' });
    expect(notes).toEqual([expect.stringMatching(/skipping the Python torch in .*: it is libtorch 2\.4\.0/)]);
  });

  test('a CUDA torch serves the CPU unless cpu was asked for, and a CPU torch never serves CUDA', () => {
    const { env, cached } = machine('2.13.0', 'cu130');
    expect(lib.findLibtorch(env, cpu)).toMatchObject({ flavour: 'cu130' });
    expect(lib.findLibtorch(env, { flavour: 'cpu', asked: true })?.root).toBe(join(cached, 'torch'));
    const other = machine('2.13.0', 'cpu');
    expect(lib.findLibtorch(other.env, { flavour: 'cu130', asked: false })).toBeNull();
  });

  test('a torch for a newer CUDA than the driver’s does not serve, one for another minor version does', () => {
    const notes: string[] = [];
    const forDriver = (driver: string, flavour: string) =>
      lib.findLibtorch(machine('2.13.0', flavour).env, lib.chooseFlavour(undefined, driver), (line) =>
        notes.push(line),
      )?.flavour;
    expect(forDriver('550.54.14', 'cu130')).toBeUndefined();
    expect(forDriver('570.86.10', 'cu132')).toBeUndefined();
    expect(notes).toEqual([
      expect.stringMatching(/skipping .*: it is built for cu130, and the NVIDIA driver here takes cu126$/),
      expect.stringMatching(/skipping .*: it is built for cu132, and the NVIDIA driver here takes cu128$/),
    ]);
    expect(forDriver('550.54.14', 'cu128')).toBe('cu128');
    expect(forDriver('580.65.06', 'cu126')).toBe('cu126');
    expect(forDriver('580.65.06', 'cu132')).toBe('cu132');
  });

  test('with a prebuilt engine only the libtorch that it is for serves, unless LIBTORCH names one', () => {
    const { env, cached } = machine('2.12.0');
    const notes: string[] = [];
    const wanted = { ...cpu, version: lib.pins.flavours.cpu!.version };
    expect(lib.findLibtorch(env, wanted, (line) => notes.push(line))?.root).toBe(join(cached, 'torch'));
    expect(notes).toEqual([
      expect.stringMatching(/skipping .*: it is 2\.12\.0, and the prebuilt engine is for 2\.13\.0$/),
    ]);
    const cuda = machine(wanted.version, 'cu130');
    expect(lib.findLibtorch(cuda.env, wanted)?.root).toBe(join(cuda.cached, 'torch'));
    const own = tree('2.11.0', {});
    expect(lib.findLibtorch({ ...env, LIBTORCH: own }, wanted)?.root).toBe(own);
  });

  test('a cached folder without its manifest is not whole', () => {
    const { env, cached } = machine('2.4.0');
    expect(lib.findLibtorch({ ...env, PYTHON: 'no-python' }, cpu)).not.toBeNull();
    writeTree(cached, {
      [lib.MANIFEST]: JSON.stringify({ source: 'test' }),
      'torch/build-version': '2.13.0+cu130',
    });
    expect(lib.findLibtorch({ ...env, PYTHON: 'no-python' }, cpu)).toBeNull();
  });
});

test('the cache follows XDG, which ignores relative paths', () => {
  expect(lib.cacheFolder({ HOME: '/h', XDG_CACHE_HOME: '/c' })).toBe('/c/acoer/libtorch');
  expect(lib.cacheFolder({ HOME: '/h', XDG_CACHE_HOME: 'c' })).toBe('/h/.cache/acoer/libtorch');
  expect(lib.cacheFolder({ HOME: '/h' })).toBe('/h/.cache/acoer/libtorch');
});

describe('missing tools', () => {
  const emptyPath = (): { env: NodeJS.ProcessEnv; folder: string } => {
    const folder = temporaryFolder();
    return { env: { PATH: folder }, folder };
  };

  test('each says what to run', () => {
    const { env } = emptyPath();
    expect(lib.checkCmake(env).problem).toBe('cmake is missing: run `sudo apt-get install -y cmake`.');
    expect(lib.checkCompiler(env).problem).toBe(
      'a C++ compiler is missing: run `sudo apt-get install -y g++`.',
    );
    expect(lib.checkMake(env).problem).toBe('make is missing: run `sudo apt-get install -y make`.');
    expect(lib.checkPython(env).problem).toBe('python3 is missing: run `sudo apt-get install -y python3`.');
    expect(() => lib.requireBuildTools(env)).toThrow(expect.objectContaining({ code: 'SETUP' }));
  });

  test("with the machine's own package manager", () => {
    const { env, folder } = emptyPath();
    fakeProgram(folder, 'dnf', '');
    expect(lib.checkCompiler(env).problem).toContain('`sudo dnf install -y gcc-c++`');
  });

  test('too old a cmake', () => {
    const { env, folder } = emptyPath();
    fakeProgram(folder, 'cmake', 'echo cmake version 3.10.2');
    expect(lib.checkCmake(env)).toMatchObject({
      version: '3.10.2',
      problem: expect.stringMatching(/too old, 3\.18/),
    });
  });

  test('a compiler without C++20, and one that CXX names in vain', () => {
    const { env, folder } = emptyPath();
    fakeProgram(
      folder,
      'g++',
      'case "$1" in -dump*) echo 8.3.0;; *) echo "error: no concepts" >&2; exit 1;; esac',
    );
    const { problem } = lib.checkCompiler(env);
    expect(problem).toMatch(
      /g\+\+ 8\.3\.0 cannot compile C\+\+20 \(error: no concepts\): install g\+\+ 11 or newer/,
    );
    expect(lib.checkCompiler({ ...env, CXX: 'icc' }).problem).toMatch(/^CXX names icc, which does not exist/);
  });

  test('the compiler of this machine does', () => {
    expect(lib.checkCompiler(process.env).problem).toBeNull();
  });

  test('a Python without pip', () => {
    const { env, folder } = emptyPath();
    fakeProgram(folder, 'python3', 'echo "No module named pip" >&2; exit 1');
    expect(lib.checkPip(env).problem).toMatch(
      /^pip is missing for .*python3: run `sudo apt-get install -y python3-pip`/,
    );
  });

  test.each([
    ['darwin', 'arm64', '2.36', /Linux x64, but this is darwin arm64/],
    ['linux', 'x64', null, /no glibc/],
    ['linux', 'x64', '2.27', /glibc 2\.27 is older than libtorch's 2\.28/],
  ] as const)('a machine that no install mends: %s %s %s', (platform, arch, glibc, expected) => {
    expect(lib.platformProblem(platform, arch, glibc)).toMatch(expected);
  });

  test('this machine is one it runs on', () => {
    expect(lib.platformProblem()).toBeNull();
  });
});

test('a directory on PATH is no program, and PATH is searched in order', async () => {
  const { which } = await import('../scripts/lib/run.mjs');
  const [first, second] = [temporaryFolder(), temporaryFolder()];
  mkdirSync(join(first, 'cmake'));
  const program = fakeProgram(second, 'cmake', '');
  expect(which('cmake', { PATH: [first, '', second].join(delimiter) })).toBe(program);
});

test.each([
  [
    'libc10.so: cannot open shared object file: No such file',
    /needs libc10\.so, which no longer exists: run/,
  ],
  [
    '/x/acoer.node: undefined symbol: _ZN3c10',
    /libtorch has changed since the addon was built \(undefined symbol _ZN3c10/,
  ],
  ["version `GLIBCXX_3.4.32' not found", /newer C\+\+ library .* lacks GLIBCXX_3\.4\.32: run/],
  ["version `GLIBC_2.34' not found", /newer C library .* lacks GLIBC_2\.34: run/],
  ['something else\nat line 2', /cannot be loaded \(something else\): run/],
])('a load failure %s', (text, expected) => {
  expect(lib.loadProblem(text)).toMatch(expected);
});

test('as many compilers as cores, and no more than memory holds', () => {
  expect(lib.compileJobs(16, 64e9)).toBe(16);
  expect(lib.compileJobs(16, 4e9)).toBe(2);
  expect(lib.compileJobs(2, 0.5e9)).toBe(1);
});
