/** Where set-up reads and writes. Everything under the package, save libtorch itself, which outlives node_modules. */
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, isAbsolute, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

export const packageRoot = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
/** CMake's own tree. */
export const buildTree = join(packageRoot, 'native', 'build');
/** Where `bindings` looks; node-gyp wipes this folder before a rebuild. */
export const addonFile = join(packageRoot, 'build', 'Release', 'acoer.node');
export const cudaObjectFile = join(packageRoot, 'build', 'Release', 'libacoer_cuda.so');
/** What the last set-up chose and built; beside CMake's tree so that node-gyp's wipe leaves it. */
export const stateFile = join(packageRoot, 'native', 'build', 'acoer-setup.json');

/** XDG's rule: a relative path counts as unset. @param {NodeJS.ProcessEnv} env */
export function cacheFolder(env) {
  const xdg = env.XDG_CACHE_HOME;
  const base = xdg && isAbsolute(xdg) ? xdg : join(env.HOME || homedir(), '.cache');
  return join(base, 'acoer', 'libtorch');
}

/** The command that runs set-up again: in a checkout the npm script, in a project that depends on acoer the bin. */
export function setupCommand() {
  return packageRoot.includes(`${sep}node_modules${sep}`) || !existsSync(join(packageRoot, 'src'))
    ? 'npx acoer setup'
    : 'npm run build';
}
