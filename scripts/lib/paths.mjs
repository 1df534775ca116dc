/**
 * Where set-up reads and writes: everything inside the package except libtorch itself, which outlives
 * node_modules.
 */
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, isAbsolute, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

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

/** By XDG's rule a relative path counts as unset. @param {NodeJS.ProcessEnv} env */
export function cacheFolder(env) {
  const xdg = env.XDG_CACHE_HOME;
  const base = xdg && isAbsolute(xdg) ? xdg : join(env.HOME || homedir(), '.cache');
  return join(base, 'acoer', 'libtorch');
}

/**
 * The command that repeats set-up: the npm script in a checkout, the bin in a project that depends on acoer.
 */
export function setupCommand() {
  return packageRoot.includes(`${sep}node_modules${sep}`) || !existsSync(join(packageRoot, 'src'))
    ? 'npx acoer setup'
    : 'npm run build';
}
