/** All of set-up: choose a flavour, find or fetch libtorch, take the prebuilt addon or build one, and load it once. */
import { buildAddon, readState, removeObjects } from './build.mjs';
import { messageOf, SetupError } from './errors.mjs';
import { fetchLibtorch } from './fetch.mjs';
import { findLibtorch } from './find.mjs';
import { say } from './log.mjs';
import { addonFile } from './paths.mjs';
import { findPrebuilt, takePrebuilt } from './prebuilt.mjs';
import { probeAddon } from './probe.mjs';
import { nvidiaDriver, platformProblem, requireBuildTools } from './tools.mjs';
import { chooseFlavour } from './versions.mjs';

/**
 * @typedef {{flavour?: string, 'from-source'?: boolean}} SetupOptions The requested flavour: the option,
 * ACOER_LIBTORCH_FLAVOUR, or that of an earlier set-up (`auto` forgets it). `from-source`: no prebuilt addon.
 */

/** @param {SetupOptions} options @param {NodeJS.ProcessEnv} env @param {string | null} [driver] */
export function wantedFlavour(options, env, driver = nvidiaDriver(env)) {
  const asked = options.flavour ?? env.ACOER_LIBTORCH_FLAVOUR ?? readState()?.askedFlavour ?? undefined;
  return chooseFlavour(asked, driver);
}

/**
 * What to look for, and the prebuilt addon that it is for. Where that is, a Python torch of another version or flavour is
 * passed over: fetching the right one takes seconds, and compiling for another minutes.
 * @param {SetupOptions} options @param {NodeJS.ProcessEnv} env @param {string | null} [driver]
 * @param {(line: string) => void} [note]
 */
export function wantedLibtorch(options, env, driver = nvidiaDriver(env), note = () => {}) {
  const wanted = wantedFlavour(options, env, driver);
  const prebuilt = options['from-source'] ? null : findPrebuilt(wanted.flavour, note);
  return { ...wanted, prebuilt, ...(prebuilt !== null && { version: prebuilt.libtorch }) };
}

/** @param {SetupOptions} options @param {NodeJS.ProcessEnv} [env] */
export async function setup(options, env = process.env) {
  const problem = platformProblem();
  if (problem) throw new SetupError(problem);
  const wanted = wantedLibtorch(options, env, nvidiaDriver(env), say);
  const { prebuilt } = wanted;
  const asked = wanted.asked ? wanted.flavour : null;
  const found = findLibtorch(env, wanted, say);
  if (!found && prebuilt === null) requireBuildTools(env); // before a download that takes minutes
  const libtorch = found ?? (await fetchLibtorch(env, wanted.flavour));
  say(
    `libtorch ${libtorch.version} (${libtorch.flavour}; ${wanted.why}) from ${libtorch.source}: ${libtorch.root}`,
  );
  if (prebuilt !== null) {
    const reason = takePrebuilt(prebuilt, libtorch, asked, env);
    if (reason === null) return say(`the engine is that of ${prebuilt.name} ${prebuilt.version}`);
    say(`${prebuilt.name} does not serve here: ${reason}; the engine is compiled instead`);
  }
  await buildAddon(libtorch, asked, env);
  const loaded = probeAddon(addonFile, [], env);
  if (loaded.problem !== null) throw new SetupError(`${loaded.problem}.`);
  removeObjects();
}

/** @param {NodeJS.ProcessEnv} env @returns {string | null} */
function takeWithoutFetching(env) {
  const wanted = wantedLibtorch({}, env);
  if (wanted.prebuilt === null) return '';
  const libtorch = findLibtorch(env, wanted);
  if (libtorch === null) return `libtorch ${wanted.version} is not on this machine yet`;
  return takePrebuilt(wanted.prebuilt, libtorch, wanted.asked ? wanted.flavour : null, env);
}

/**
 * For the first call in a project in which set-up never ran, as where install scripts are blocked: takes the prebuilt
 * addon if its libtorch is here. Fetches and compiles nothing.
 * @param {NodeJS.ProcessEnv} [env]
 * @returns {string | null} why not, without a full stop and empty where there is no prebuilt addon; null: it is there
 */
export function setupPrebuilt(env = process.env) {
  try {
    return platformProblem() ?? takeWithoutFetching(env);
  } catch (error) {
    if (error instanceof SetupError) return messageOf(error).replace(/\.$/, '');
    throw error;
  }
}
