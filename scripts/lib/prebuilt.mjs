/**
 * The addon as a package of its own, so that installing needs no compiler. One package is for one libtorch, whose C++
 * interface changes between versions; it is tried in a process of its own before it is used.
 */
import { createHash, randomBytes } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { writeState } from './build.mjs';
import { SetupError, systemCode } from './errors.mjs';
import {
  ADDONS,
  buildTree,
  inCheckout,
  LIBTORCH_LINK,
  makeFolders,
  packageRoot,
  releaseFolder,
} from './paths.mjs';
import { probeAddon } from './probe.mjs';

/**
 * @typedef {{libtorch: string, flavour: string, libraries: string[], sources: string}} Binary What the addon was built
 * against and from: `libraries` are those of libtorch that it asks for, `sources` is their digest.
 * @typedef {Binary & {name: string, version: string, folder: string}} Prebuilt
 */

/** Made with the addons by scripts/prebuild.mjs. */
export const BINARY = 'binary.json';
const SOURCES = ['CMakeLists.txt', 'addon', 'core', 'cuda', 'lock', 'ranks'];

/** Which native sources these are: package and addon may have been packed at different times. */
export function sourcesDigest(native = join(packageRoot, 'native')) {
  const hash = createHash('sha256');
  const below = (/** @type {string} */ name) =>
    statSync(join(native, name)).isFile()
      ? [name]
      : readdirSync(join(native, name), { recursive: true, encoding: 'utf8' }).map((file) =>
          join(name, file),
        );
  for (const name of SOURCES.flatMap(below).sort()) {
    const path = join(native, name);
    if (statSync(path).isFile()) hash.update(`${name}\0`).update(readFileSync(path));
  }
  return hash.digest('hex');
}

/** Folder of an installed package, or null. @param {string} name */
function installedFolder(name) {
  try {
    return dirname(createRequire(join(packageRoot, 'package.json')).resolve(`${name}/package.json`));
  } catch (error) {
    if (systemCode(error) === 'MODULE_NOT_FOUND') return null;
    throw error;
  }
}

/** @param {string} folder @returns {Prebuilt | null} null without addons, as in a checkout's own folder */
function readPackage(folder) {
  if (![BINARY, ...ADDONS].every((name) => existsSync(join(folder, name)))) return null;
  const json = (/** @type {string} */ name) => JSON.parse(readFileSync(join(folder, name), 'utf8'));
  const { name, version } = json('package.json');
  return { name, version, folder, ...json(BINARY) };
}

/** The packages that may have the addon: they are optional, so that npm leaves out those for other machines. */
function packageNames() {
  /** @type {{optionalDependencies?: Record<string, string>}} */
  const { optionalDependencies } = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8'));
  return Object.keys(optionalDependencies ?? {}).filter((name) => name.startsWith('@acoer/'));
}

/**
 * The installed package with the addon for this flavour of libtorch; null if there is none, and in a checkout.
 * @param {string} flavour @param {(line: string) => void} [note] called with why one was skipped
 */
export function findPrebuilt(flavour, note = () => {}) {
  if (inCheckout()) return null;
  for (const name of packageNames()) {
    const folder = installedFolder(name);
    const prebuilt = folder === null ? null : readPackage(folder);
    if (prebuilt?.flavour !== flavour) continue;
    if (prebuilt.sources === sourcesDigest()) return prebuilt;
    note(`skipping ${name} ${prebuilt.version}: it was built from other sources than this acoer's`);
  }
  return null;
}

/** Why this libtorch is not the one that the addon is for, or null. @param {Prebuilt} prebuilt @param {import('./inspect.mjs').Libtorch} libtorch */
function whyNotFor(prebuilt, { root, version, flavour }) {
  if (version !== prebuilt.libtorch || flavour !== prebuilt.flavour)
    return `it is for libtorch ${prebuilt.libtorch} (${prebuilt.flavour}), and ${root} is ${version} (${flavour})`;
  // A libtorch of another maker may bring another OpenMP, and two of them would not share their threads.
  const absent = prebuilt.libraries.find((name) => !existsSync(join(root, 'lib', name)));
  return absent === undefined ? null : `${root} has no lib/${absent}`;
}

/** Puts the finished folder in its place; another process may have done so meanwhile. @param {string} staging */
function putInPlace(staging) {
  rmSync(releaseFolder, { recursive: true, force: true });
  try {
    renameSync(staging, releaseFolder);
  } catch (error) {
    if (systemCode(error) !== 'ENOTEMPTY' && systemCode(error) !== 'EEXIST') throw error;
  }
}

/**
 * Puts the addon where `npx acoer setup` builds it, if it works with this libtorch.
 * @param {Prebuilt} prebuilt @param {import('./find.mjs').FoundLibtorch} libtorch @param {string | null} askedFlavour
 * @param {NodeJS.ProcessEnv} env
 * @returns {string | null} why it does not serve, or null
 */
export function takePrebuilt(prebuilt, libtorch, askedFlavour, env) {
  const unfit = whyNotFor(prebuilt, libtorch);
  if (unfit !== null) return unfit;
  const staging = join(dirname(releaseFolder), `.tmp-${randomBytes(4).toString('hex')}`);
  try {
    makeFolders(dirname(releaseFolder));
    mkdirSync(staging);
    for (const name of ADDONS) copyFileSync(join(prebuilt.folder, name), join(staging, name));
    symlinkSync(join(libtorch.root, 'lib'), join(staging, LIBTORCH_LINK));
    const { facts, reason } = probeAddon(join(staging, 'acoer.node'), ['cpu'], env);
    const failed = reason ?? facts.devices.find(({ error }) => error !== undefined)?.error;
    if (failed !== undefined) return failed;
    putInPlace(staging);
    rmSync(buildTree, { recursive: true, force: true });
    writeState(libtorch, askedFlavour, `${prebuilt.name} ${prebuilt.version}`);
    return null;
  } catch (error) {
    if (systemCode(error) === undefined) throw error;
    throw new SetupError(
      `${packageRoot} cannot be written (${systemCode(error)}): set up as the user who owns it.`,
      { cause: error },
    );
  } finally {
    rmSync(staging, { recursive: true, force: true });
  }
}
