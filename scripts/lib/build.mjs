/** Builds the addons with cmake-js; CMake and Ninja decide what is out of date. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism, totalmem } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { diskFull, SetupError } from './errors.mjs';
import { fingerprint } from './inspect.mjs';
import { compileProgress, say } from './log.mjs';
import {
  addonFile,
  ADDONS,
  buildTree,
  inCheckout,
  makeFolders,
  packageRoot,
  releaseFolder,
  setupCommand,
  stateFile,
} from './paths.mjs';
import { stream } from './run.mjs';
import { checkCompiler, requireBuildTools } from './tools.mjs';

/**
 * @typedef {{root: string, version: string, flavour: string, fingerprint: string, askedFlavour: string | null,
 * prebuilt: string | null}} SetupState What the addon was built against; `askedFlavour` is remembered for the next
 * set-up, `prebuilt` is the package that the addon is from.
 */

/** @returns {SetupState | null} */
export function readState() {
  if (!existsSync(stateFile)) return null;
  try {
    return JSON.parse(readFileSync(stateFile, 'utf8'));
  } catch {
    return null; // left by a set-up that was killed while writing
  }
}

/** @param {import('./find.mjs').FoundLibtorch} libtorch @param {string | null} askedFlavour @param {string | null} prebuilt */
export function writeState({ root, version, flavour }, askedFlavour, prebuilt) {
  /** @type {SetupState} */
  const state = { root, version, flavour, fingerprint: fingerprint(root), askedFlavour, prebuilt };
  makeFolders(dirname(stateFile));
  writeFileSync(stateFile, `${JSON.stringify(state, null, 2)}\n`);
}

const BYTES_PER_COMPILER = 1.6e9; // measured: 0.7 to 1.3 GB for a file that includes ATen

export function compileJobs(cores = availableParallelism(), memoryBytes = totalmem()) {
  return Math.max(1, Math.min(cores, Math.floor(memoryBytes / BYTES_PER_COMPILER)));
}

/** @param {string} output */
function buildFailure(output) {
  if (/No space left on device/.test(output)) return diskFull(packageRoot);
  if (
    /Killed signal|signal terminated program|cannot allocate memory|virtual memory exhausted/i.test(output)
  ) {
    return new SetupError(
      `the compiler ran out of memory: close other programs and run \`ACOER_JOBS=1 ${setupCommand()}\`.`,
    );
  }
  return new SetupError(
    `the native addon could not be built; the first error is above. Run \`npx acoer doctor\` to see the tools used.`,
  );
}

/** @param {string[]} args @param {NodeJS.ProcessEnv} env @param {(text: string) => void} [onText] */
async function cmakeJs(args, env, onText) {
  const require = createRequire(import.meta.url);
  const manifest = require.resolve('cmake-js/package.json');
  const program = join(
    dirname(manifest),
    /** @type {{bin: {'cmake-js': string}}} */ (require(manifest)).bin['cmake-js'],
  );
  const folders = ['--directory', join(packageRoot, 'native'), '--out', buildTree];
  // Under node-gyp this runs inside make, whose flags must not reach CMake's make.
  const { MAKEFLAGS: _flags, MFLAGS: _oldFlags, MAKELEVEL: _level, ...clean } = env;
  const options = { env: clean, cwd: packageRoot, onText };
  return stream(process.execPath, [program, ...args, ...folders], options);
}

/** @param {string} root libtorch's folder @param {NodeJS.ProcessEnv} env */
async function configure(root, env) {
  rmSync(buildTree, { recursive: true, force: true });
  mkdirSync(buildTree, { recursive: true });
  const configured = await cmakeJs(['configure', '--log-level', 'warn', `--CDLIBTORCH=${root}`], env);
  if (configured.code === 0) return;
  process.stderr.write(configured.output);
  throw buildFailure(configured.output);
}

/** @param {number} jobs @param {NodeJS.ProcessEnv} env */
async function compile(jobs, env) {
  const { onText, end } = compileProgress();
  const built = await cmakeJs(['build', '--log-level', 'warn', '--parallel', String(jobs)], env, onText);
  end();
  if (built.code !== 0) throw buildFailure(built.output);
}

/** A value of CMakeCache.txt, or null. @param {string} name */
function cacheValue(name) {
  const file = join(buildTree, 'CMakeCache.txt');
  if (!existsSync(file)) return null;
  return new RegExp(`^${name}:[A-Z]+=(.*)$`, 'm').exec(readFileSync(file, 'utf8'))?.[1] ?? null;
}

/** Whether the last set-up was for this libtorch, as it is now. @param {import('./find.mjs').FoundLibtorch} libtorch */
function isStateOf({ root }) {
  const state = readState();
  return state?.root === root && state.fingerprint === fingerprint(root);
}

/**
 * Whether CMake's tree belongs to this libtorch and place. If not, it is recreated: Ninja would not notice
 * all headers that became another version under the same path.
 * @param {import('./find.mjs').FoundLibtorch} libtorch
 */
const isTreeOf = (libtorch) =>
  cacheValue('CMAKE_HOME_DIRECTORY') === join(packageRoot, 'native') &&
  cacheValue('LIBTORCH') === libtorch.root &&
  isStateOf(libtorch);

const missingAddon = () => ADDONS.map((name) => join(releaseFolder, name)).find((file) => !existsSync(file));

/**
 * Whether an installed package was built for this libtorch: its objects were then removed, CMake's cache with them.
 * @param {import('./find.mjs').FoundLibtorch} libtorch
 */
const isFinished = (libtorch) =>
  !inCheckout() &&
  cacheValue('LIBTORCH') === null &&
  missingAddon() === undefined &&
  isStateOf(libtorch) &&
  !readState()?.prebuilt;

/** Objects are for building again after an edit; in somebody's project nobody edits. */
export function removeObjects() {
  if (inCheckout()) return;
  for (const name of readdirSync(buildTree)) {
    if (name !== basename(stateFile)) rmSync(join(buildTree, name), { recursive: true });
  }
}

/**
 * @param {import('./find.mjs').FoundLibtorch} libtorch
 * @param {string | null} askedFlavour
 * @param {NodeJS.ProcessEnv} env
 */
export async function buildAddon(libtorch, askedFlavour, env) {
  const startMs = Date.now();
  if (isFinished(libtorch)) {
    writeState(libtorch, askedFlavour, null);
    say(`${addonFile} is up to date`);
    return;
  }
  requireBuildTools(env);
  const jobs = Number(env.ACOER_JOBS) || compileJobs();
  if (!isTreeOf(libtorch)) {
    const { path, version: compiler } = checkCompiler(env);
    say(
      `compiling the engine with ${path} ${compiler}, ${jobs} files at once: takes minutes, the first time only`,
    );
    await configure(libtorch.root, env);
  }
  writeState(libtorch, askedFlavour, null);
  await compile(jobs, env);
  const missing = missingAddon();
  if (missing !== undefined)
    throw new SetupError(
      `the build succeeded but produced no ${missing}: remove ${buildTree} and run \`${setupCommand()}\`.`,
    );
  say(`${addonFile} is up to date (${((Date.now() - startMs) / 1000).toFixed(1)} s)`);
}
