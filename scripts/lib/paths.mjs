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
/** Where `bindings` looks; node-gyp wipes this folder before a rebuild. */
export const addonFile = join(packageRoot, 'build', 'Release', 'acoer.node');
/** Locks of files; needs no libtorch. */
export const lockAddonFile = join(packageRoot, 'build', 'Release', 'lock.node');
export const cudaObjectFile = join(packageRoot, 'build', 'Release', 'libacoer_cuda.so');
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

/**
 * The command that repeats set-up: the npm script in a checkout, the bin in a project that depends on acoer.
 */
export function setupCommand() {
  return packageRoot.includes(`${sep}node_modules${sep}`) || !existsSync(join(packageRoot, 'src'))
    ? 'npx acoer setup'
    : 'npm run build';
}
