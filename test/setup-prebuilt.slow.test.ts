/** The prebuilt engine in an installed package: taken without a compiler, or passed over for a reason that is said. */
import { spawnSync } from 'node:child_process';
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';

import { archiveLabel, libtorchFiles, temporaryFolder, writeTree } from './helpers/fake-libtorch';
import { builtCli, ROOT } from './helpers/cli';

const NAME = '@acoer/linux-x64-libtorch2.13-cpu';
const loadModules = async () => ({
  ...(await import('../scripts/lib/build.mjs')),
  ...(await import('../scripts/lib/paths.mjs')),
  ...(await import('../scripts/lib/prebuilt.mjs')),
});
let lib: Awaited<ReturnType<typeof loadModules>>;
/** What this checkout's addons were built against. */
let libtorch: { root: string; version: string; flavour: string };
beforeAll(async () => {
  lib = await loadModules();
  libtorch = lib.readState()!;
  builtCli();
}, 300_000);

interface Installed {
  /** Of acoer, in its project. */
  own: string;
  /** Of the package with the addons. */
  prebuilt: string;
}

/** The parts of the package that set-up and the first call read, with the prebuilt package beside it. */
function installed(own: string): Installed {
  const copy = (path: string) => cpSync(join(ROOT, path), join(own, path), { recursive: true });
  for (const name of ['CMakeLists.txt', 'addon', 'core', 'cuda', 'lock', 'ranks']) copy(join('native', name));
  for (const path of ['package.json', 'scripts/setup.mjs', 'scripts/lib', 'dist/base', 'dist/engine'])
    copy(path);
  for (const name of ['bindings', 'file-uri-to-path']) copy(join('node_modules', name));
  const prebuilt = join(own, 'node_modules', NAME);
  mkdirSync(prebuilt, { recursive: true });
  for (const name of lib.ADDONS) cpSync(join(ROOT, 'build', 'Release', name), join(prebuilt, name));
  cpSync(join(ROOT, 'packages', 'linux-x64-cpu', 'package.json'), join(prebuilt, 'package.json'));
  const { version, flavour } = libtorch;
  const binary = { libtorch: version, flavour, libraries: ['libtorch_cpu.so'], sources: lib.sourcesDigest() };
  writeFileSync(join(prebuilt, lib.BINARY), JSON.stringify(binary));
  return { own, prebuilt };
}
const inProject = () => installed(join(temporaryFolder(), 'node_modules', 'acoer'));

/** A machine without a compiler, Python and cache, but with the libtorch of this checkout. */
function bareMachine(): NodeJS.ProcessEnv {
  const folder = temporaryFolder();
  const { flavour, root } = libtorch;
  return { PATH: folder, XDG_CACHE_HOME: folder, ACOER_LIBTORCH_FLAVOUR: flavour, LIBTORCH: root };
}

function node(cwd: string, env: NodeJS.ProcessEnv, ...words: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, words, { cwd, env, encoding: 'utf8' });
  return { code: status, stdout, stderr };
}
const setUp = ({ own }: Installed, env: NodeJS.ProcessEnv, ...words: string[]) =>
  node(own, env, join('scripts', 'setup.mjs'), ...words);

/** The first call of a program: what the engine says of itself, or why it did not load. */
const firstCall = ({ own }: Installed, env: NodeJS.ProcessEnv) =>
  JSON.parse(
    node(
      own,
      env,
      '-e',
      `try { console.log(JSON.stringify(require('./dist/engine/binding').loadAddon().buildInfo())); }
       catch ({ code, message }) { console.log(JSON.stringify({ code, message })); }`,
    ).stdout,
  ) as { libtorch?: string; code?: string; message?: string };

const builtFiles = ({ own }: Installed) => {
  const folder = join(own, 'build', 'Release');
  return existsSync(folder) ? readdirSync(folder).sort() : [];
};

test('without a compiler set-up takes it, and the doctor names it', () => {
  const project = inProject();
  const env = bareMachine();
  expect(setUp(project, env)).toEqual({
    code: 0,
    stdout: '',
    stderr: expect.stringContaining(`the engine is that of ${NAME} 0.1.0\n`),
  });
  expect(builtFiles(project)).toEqual(['acoer.node', 'libtorch', 'lock.node', 'ranks.node']);
  expect(firstCall(project, env).libtorch).toContain(libtorch.version);
  const doctor = node(
    project.own,
    env,
    '--input-type=module',
    '-e',
    `import { examine } from './scripts/lib/doctor.mjs';
     import { reportText } from './scripts/lib/doctor-text.mjs';
     console.log(reportText(examine(process.env, null)));`,
  );
  expect(doctor.stdout).toMatch(new RegExp(`^addon +ok, from ${NAME} 0\\.1\\.0 for libtorch`, 'm'));
  expect(doctor.stdout).not.toMatch(/^problem/m);
});

test('where set-up never ran, the first call takes it', () => {
  const project = inProject();
  expect(firstCall(project, bareMachine()).libtorch).toContain(libtorch.version);
  expect(builtFiles(project)).toEqual(['acoer.node', 'libtorch', 'lock.node', 'ranks.node']);
});

test('without libtorch the first call is answered by one sentence', () => {
  const project = inProject();
  const { LIBTORCH: _libtorch, ...env } = bareMachine();
  expect(firstCall(project, env)).toEqual({
    code: 'LOAD_FAILED',
    message: `the native engine is not set up (libtorch ${libtorch.version} is not on this machine yet); run: npx acoer setup`,
  });
  expect(builtFiles(project)).toEqual([]);
});

test('one that crashes does so in a process of its own, and the engine is compiled instead', () => {
  const project = inProject();
  truncateSync(join(project.prebuilt, 'acoer.node'), 200_000);
  const { code, stderr } = setUp(project, bareMachine());
  expect(stderr).toContain(`${NAME} does not serve here: the addon cannot be loaded (it ended with SIG`);
  expect(stderr).toMatch(/the engine is compiled instead\n.*cmake is missing: run/);
  expect(code).toBe(1);
  expect(builtFiles(project)).toEqual([]);
  expect(firstCall(project, bareMachine()).message).toMatch(
    /is not set up \(.* \(it ended with SIG\w+\)\); run: npx acoer setup$/,
  );
});

test('another libtorch, which LIBTORCH names, is compiled for', () => {
  const project = inProject();
  const LIBTORCH = writeTree(
    temporaryFolder(),
    libtorchFiles('2.12.0', archiveLabel('2.12.0', libtorch.flavour)),
  );
  const { code, stderr } = setUp(project, { ...bareMachine(), LIBTORCH });
  expect(stderr).toMatch(
    /does not serve here: it is for libtorch \S+ \(\w+\), and \S+ is 2\.12\.0 \(\w+\); the engine is compiled instead/,
  );
  expect(code).toBe(1);
});

test('one of other sources is passed over, and so is one without addons', () => {
  const project = inProject();
  appendFileSync(join(project.own, 'native', 'addon', 'addon.cpp'), '\n');
  const other = setUp(project, bareMachine());
  expect(other.stderr).toContain(
    `skipping ${NAME} 0.1.0: it was built from other sources than this acoer's\n`,
  );
  expect(other.code).toBe(1);
  const empty = inProject();
  writeFileSync(join(empty.prebuilt, lib.BINARY), '{}');
  expect(setUp(empty, bareMachine(), '--prebuilt')).toEqual({ code: 1, stdout: '', stderr: '' });
});

test('in a checkout the sources decide', () => {
  const checkout = installed(join(temporaryFolder(), 'acoer'));
  mkdirSync(join(checkout.own, 'src'));
  expect(setUp(checkout, bareMachine(), '--prebuilt')).toEqual({ code: 1, stdout: '', stderr: '' });
  expect(setUp(checkout, bareMachine()).stderr).toMatch(/cmake is missing: run/);
});

describe('objects', () => {
  /** As after linking: addons, objects and the state of a build for this libtorch. */
  function compiled(project: Installed): string {
    const release = join(project.own, 'build', 'Release');
    mkdirSync(release, { recursive: true });
    for (const name of lib.ADDONS) cpSync(join(ROOT, 'build', 'Release', name), join(release, name));
    symlinkSync(join(libtorch.root, 'lib'), join(release, 'libtorch'));
    const tree = join(project.own, 'native', 'build');
    const state = { ...lib.readState(), prebuilt: null };
    writeTree(tree, { 'acoer-setup.json': JSON.stringify(state), 'libacoer_core.a': '', 'o/a.o': '' });
    return tree;
  }
  const removeObjects = ({ own }: Installed) =>
    node(own, {}, '-e', `import('./scripts/lib/build.mjs').then(({ removeObjects }) => removeObjects())`);

  test('of an installed package go after linking, and it is not compiled again', () => {
    const project = inProject();
    const tree = compiled(project);
    expect(removeObjects(project)).toEqual({ code: 0, stdout: '', stderr: '' });
    expect(readdirSync(tree)).toEqual(['acoer-setup.json']);
    const again = setUp(project, bareMachine(), '--from-source');
    expect(again.stderr).toMatch(/acoer\.node is up to date\n/);
    expect(again.stderr).not.toMatch(/missing: run/);
  });

  test('of a checkout stay', () => {
    const checkout = installed(join(temporaryFolder(), 'acoer'));
    mkdirSync(join(checkout.own, 'src'));
    const tree = compiled(checkout);
    removeObjects(checkout);
    expect(readdirSync(tree).sort()).toEqual(['acoer-setup.json', 'libacoer_core.a', 'o']);
  });
});

test('the package and its version are those that acoer asks for', () => {
  const json = (path: string) =>
    JSON.parse(readFileSync(join(ROOT, path), 'utf8')) as Record<string, string> & {
      optionalDependencies: Record<string, string>;
    };
  const { version, name } = json('packages/linux-x64-cpu/package.json');
  const { version: own, optionalDependencies } = json('package.json');
  expect({ name, version }).toEqual({ name: NAME, version: own });
  expect(optionalDependencies[NAME]).toBe(version);
});
