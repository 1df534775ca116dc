/** Whether the built addon loads, and what it reports about itself. */
import { join } from 'node:path';
import { packageRoot, setupCommand } from './paths.mjs';
import { capture } from './run.mjs';

/**
 * @typedef {{device: string, info?: Record<string, unknown>, error?: string}} DeviceFacts
 * @typedef {{libtorch: string, cuda: string | null, cxxFlags: string}} BuildFacts
 * @typedef {{build: BuildFacts, devices: DeviceFacts[]}} AddonFacts
 */

/** Turns the dynamic loader's error into the rest of a sentence. @param {string} text */
export function loadProblem(text) {
  const again = `run \`${setupCommand()}\``;
  const library = /(lib\S+?): cannot open shared object file/.exec(text)?.[1];
  if (library) return `the addon needs ${library}, which no longer exists: ${again}`;
  const symbol = /undefined symbol: (\S+)/.exec(text)?.[1];
  if (symbol)
    return `libtorch has changed since the addon was built (undefined symbol ${symbol.slice(0, 60)}): ${again}`;
  if (/GLIBCXX_|CXXABI_/.test(text)) {
    return `the addon was built with a newer C++ library than this machine's: ${again} on this machine`;
  }
  return `the addon cannot be loaded (${text.trim().replace(/\n.*/s, '').slice(0, 200)}): ${again}`;
}

/**
 * @param {string} file @param {string[]} devices such as cpu, cuda:0 @param {NodeJS.ProcessEnv} env
 * @returns {{facts: AddonFacts, problem: null} | {facts: null, problem: string}}
 */
export function probeAddon(file, devices, env) {
  const script = join(packageRoot, 'scripts', 'lib', 'probe.cjs');
  const result = capture(process.execPath, [script, file, ...devices], env, 120_000);
  if (result.ok) return { facts: JSON.parse(result.stdout.trim().split('\n').at(-1) ?? ''), problem: null };
  return { facts: null, problem: loadProblem(result.stderr || 'it ended without a message') };
}
