/** Finds a libtorch on this machine: LIBTORCH, then a Python torch, then the cache of an earlier set-up. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { SetupError } from './errors.mjs';
import { inspect } from './inspect.mjs';
import { cacheFolder, setupCommand } from './paths.mjs';
import { capture, which } from './run.mjs';
import { pinOf } from './versions.mjs';

/**
 * @typedef {import('./inspect.mjs').Libtorch & {source: string}} FoundLibtorch
 * @typedef {{flavour: string, asked: boolean, version?: string}} Wanted `asked` if the user named the flavour;
 * `version` if no other serves, because the addon is prebuilt for it
 */

/** Written last into a cached folder, so its presence means that the folder is complete. */
export const MANIFEST = 'acoer-libtorch.json';

/** @param {NodeJS.ProcessEnv} env @param {string} flavour */
export function cachedFolder(env, flavour) {
  return join(cacheFolder(env), `${pinOf(flavour).version}-${flavour}`);
}

/** @param {NodeJS.ProcessEnv} env @returns {FoundLibtorch | null} */
function fromEnvironment(env) {
  if (!env.LIBTORCH) return null;
  const { libtorch, problem } = inspect(env.LIBTORCH);
  if (libtorch) return { ...libtorch, source: 'LIBTORCH' };
  throw new SetupError(
    `LIBTORCH=${env.LIBTORCH} ${problem}: set it to a folder with include/ and lib/, or \`unset LIBTORCH\` and run \`${setupCommand()}\`.`,
  );
}

// Only find_spec: importing torch takes seconds. A folder named torch in the current directory must not
// shadow it.
const FIND_TORCH =
  'import sys; sys.path = [p for p in sys.path if p]; import importlib.util as u; s = u.find_spec("torch"); print(list(s.submodule_search_locations)[0] if s and s.submodule_search_locations else "")';

/** The folder of the Python torch, or null. @param {NodeJS.ProcessEnv} env */
export function pythonTorchFolder(env) {
  const python = which(env.PYTHON || 'python3', env);
  if (!python) return null;
  const result = capture(python, ['-c', FIND_TORCH], env);
  const folder = result.stdout.trim().split('\n').at(-1) ?? '';
  return result.ok && folder !== '' ? folder : null;
}

/** "13" for cu130. @param {string} flavour */
const cudaMajor = (flavour) => Number(/^cu(\d+)\d$/.exec(flavour)?.[1] ?? 0);

/**
 * Why a found libtorch cannot serve; empty if it can. A CUDA build also computes on the CPU, so it is
 * rejected only if the user asked for cpu; a CPU build is rejected if an NVIDIA driver calls for CUDA, and a build for
 * a newer CUDA than the driver's: a driver runs every minor version of its own.
 * @param {import('./inspect.mjs').Libtorch} libtorch @param {Wanted} wanted
 */
function whyNot({ version, flavour: found }, wanted) {
  if (wanted.version !== undefined && version !== wanted.version)
    return `it is ${version}, and the prebuilt engine is for ${wanted.version}`;
  if (found === wanted.flavour) return '';
  const both = `it is built for ${found}, not ${wanted.flavour}`;
  if (wanted.asked || wanted.version !== undefined) return both;
  if (wanted.flavour === 'cpu') return '';
  if (found === 'cpu') return both;
  return cudaMajor(found) > cudaMajor(wanted.flavour)
    ? `it is built for ${found}, and the NVIDIA driver here takes ${wanted.flavour}`
    : '';
}

/**
 * @param {NodeJS.ProcessEnv} env
 * @param {Wanted} wanted
 * @param {(line: string) => void} note
 * @returns {FoundLibtorch | null}
 */
function fromPython(env, wanted, note) {
  const folder = pythonTorchFolder(env);
  if (folder === null) return null;
  const { libtorch, problem } = inspect(folder);
  if (!libtorch) {
    note(`skipping the Python torch in ${folder}: it ${problem}`);
    return null;
  }
  const reason = whyNot(libtorch, wanted);
  if (reason !== '') {
    note(`skipping the Python torch in ${folder}: ${reason}`);
    return null;
  }
  return { ...libtorch, source: 'Python torch' };
}

/**
 * The cached libtorch of a flavour if it is complete.
 * @param {NodeJS.ProcessEnv} env @param {string} flavour @returns {FoundLibtorch | null}
 */
export function fromCache(env, flavour) {
  const folder = cachedFolder(env, flavour);
  if (!existsSync(join(folder, MANIFEST))) return null;
  const { libtorch } = inspect(folder);
  if (!libtorch || libtorch.flavour !== flavour) return null;
  const manifest = /** @type {{source: string}} */ (JSON.parse(readFileSync(join(folder, MANIFEST), 'utf8')));
  return { ...libtorch, source: `cache (${manifest.source})` };
}

/**
 * @param {NodeJS.ProcessEnv} env @param {Wanted} wanted
 * @param {(line: string) => void} [note] called with the reason why a candidate was skipped
 * @returns {FoundLibtorch | null}
 */
export function findLibtorch(env, wanted, note = () => {}) {
  return fromEnvironment(env) ?? fromPython(env, wanted, note) ?? fromCache(env, wanted.flavour);
}
