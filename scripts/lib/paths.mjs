/**
 * Where set-up reads and writes: everything inside the package except libtorch itself, which outlives
 * node_modules.
 */
import { existsSync, mkdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, isAbsolute, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SetupError, systemCode } from './errors.mjs';

export const packageRoot = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
/** CMake's own tree. */
export const buildTree = join(packageRoot, 'native', 'build');
/** Where the addons are loaded from; node-gyp wipes the folder above before a rebuild. */
export const releaseFolder = join(packageRoot, 'build', 'Release');
export const addonFile = join(releaseFolder, 'acoer.node');
/** Every addon that is built: the engine, locks of files, the ranks of a run. */
export const ADDONS = ['acoer.node', 'lock.node', 'ranks.node'];
export const cudaObjectFile = join(releaseFolder, 'libacoer_cuda.so');
/** The link beside the addon through which it finds libtorch. */
export const LIBTORCH_LINK = 'libtorch';
/** What the last set-up chose and built; in CMake's tree, which node-gyp does not wipe. */
export const stateFile = join(packageRoot, 'native', 'build', 'acoer-setup.json');

function homeFolder() {
  try {
    return homedir();
  } catch (cause) {
    throw new SetupError('this user has no home folder: set HOME or XDG_CACHE_HOME.', { cause });
  }
}

/** By XDG's rule a relative path counts as unset. @param {NodeJS.ProcessEnv} env */
export function cacheFolder(env) {
  const xdg = env.XDG_CACHE_HOME;
  const base = xdg && isAbsolute(xdg) ? xdg : join(env.HOME || homeFolder(), '.cache');
  return join(base, 'acoer', 'libtorch');
}

/**
 * Makes `path` and the missing folders above it. Node's own `recursive: true` never returns where the system
 * answers ENOENT although the parent exists, as under /proc.
 * @param {string} path
 */
export function makeFolders(path) {
  if (existsSync(path)) return;
  makeFolders(dirname(path));
  try {
    mkdirSync(path);
  } catch (error) {
    if (systemCode(error) !== 'EEXIST') throw error;
  }
}

/** Whether this is a checkout, where the sources decide, and not the package in somebody's project. */
export function inCheckout() {
  return !packageRoot.includes(`${sep}node_modules${sep}`) && existsSync(join(packageRoot, 'src'));
}

/**
 * The command that repeats set-up: the npm script in a checkout, the bin in a project that depends on acoer.
 */
export const setupCommand = () => (inCheckout() ? 'npm run build' : 'npx acoer setup');
