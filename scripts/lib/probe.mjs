/** Whether the built addon loads, and what it reports about itself. */
import { join } from 'node:path';
import { packageRoot, setupCommand } from './paths.mjs';
import { capture } from './run.mjs';

/**
 * @typedef {{device: string, info?: Record<string, unknown>, error?: string}} DeviceFacts
 * @typedef {{libtorch: string, cuda: string | null, cxxFlags: string}} BuildFacts
 * @typedef {{build: BuildFacts, devices: DeviceFacts[]}} AddonFacts
 */

/** What the dynamic loader's error means. @param {string} text */
function loadReason(text) {
  const library = /(lib\S+?): cannot open shared object file/.exec(text)?.[1];
  if (library) return `the addon needs ${library}, which no longer exists`;
  const symbol = /undefined symbol: (\S+)/.exec(text)?.[1];
  if (symbol)
    return `libtorch has changed since the addon was built (undefined symbol ${symbol.slice(0, 60)})`;
  const version = /(?:GLIBC|GLIBCXX|CXXABI)_[\d.]+/.exec(text)?.[0];
  if (version) {
    const library = version.startsWith('GLIBC_') ? 'C library' : 'C++ library';
    return `the addon was built with a newer ${library} than this machine's, which lacks ${version}`;
  }
  return `the addon cannot be loaded (${text.trim().replace(/\n.*/s, '').slice(0, 200)})`;
}

/** The same with the command that mends it. @param {string} text */
export const loadProblem = (text) => `${loadReason(text)}: run \`${setupCommand()}\``;

/**
 * Loads the addon in a process of its own, which may crash.
 * @param {string} file @param {string[]} devices such as cpu, cuda:0 @param {NodeJS.ProcessEnv} env
 * @returns {{facts: AddonFacts, reason: null, problem: null} | {facts: null, reason: string, problem: string}}
 * `problem` is the reason with the command that mends it.
 */
export function probeAddon(file, devices, env) {
  const script = join(packageRoot, 'scripts', 'lib', 'probe.cjs');
  const { ok, stdout, stderr, signal } = capture(process.execPath, [script, file, ...devices], env, 120_000);
  if (ok) return { facts: JSON.parse(stdout.trim().split('\n').at(-1) ?? ''), reason: null, problem: null };
  const text = signal === null ? stderr || 'it ended without a message' : `it ended with ${signal}`;
  return { facts: null, reason: loadReason(text), problem: loadProblem(text) };
}
