/** All of set-up: choose a flavour, find or fetch libtorch, build the addon, and load it once. */
import { buildAddon, readState } from './build.mjs';
import { SetupError } from './errors.mjs';
import { fetchLibtorch } from './fetch.mjs';
import { findLibtorch } from './find.mjs';
import { say } from './log.mjs';
import { addonFile } from './paths.mjs';
import { probeAddon } from './probe.mjs';
import { nvidiaDriver, platformProblem, requireBuildTools } from './tools.mjs';
import { chooseFlavour } from './versions.mjs';

/**
 * @typedef {{flavour?: string}} SetupOptions The requested flavour: the option, ACOER_LIBTORCH_FLAVOUR, or
 * that of an earlier set-up (`auto` forgets it).
 */

/** @param {SetupOptions} options @param {NodeJS.ProcessEnv} env @param {string | null} [driver] */
export function wantedFlavour(options, env, driver = nvidiaDriver(env)) {
  const asked = options.flavour ?? env.ACOER_LIBTORCH_FLAVOUR ?? readState()?.askedFlavour ?? undefined;
  return chooseFlavour(asked, driver);
}

/** @param {SetupOptions} options @param {NodeJS.ProcessEnv} [env] */
export async function setup(options, env = process.env) {
  const problem = platformProblem();
  if (problem) throw new SetupError(problem);
  const wanted = wantedFlavour(options, env);
  requireBuildTools(env); // before a download that takes minutes
  const libtorch = findLibtorch(env, wanted, say) ?? (await fetchLibtorch(env, wanted.flavour));
  say(
    `libtorch ${libtorch.version} (${libtorch.flavour}; ${wanted.why}) from ${libtorch.source}: ${libtorch.root}`,
  );
  await buildAddon(libtorch, wanted.asked ? wanted.flavour : null, env);
  const loaded = probeAddon(addonFile, [], env);
  if (loaded.problem !== null) throw new SetupError(`${loaded.problem}.`);
  return { libtorch, build: loaded.facts.build };
}
