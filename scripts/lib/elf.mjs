/** What a shared library asks of the machine it is loaded on, from binutils' `objdump`. */
import { SetupError } from './errors.mjs';
import { capture, which } from './run.mjs';
import { atLeast } from './versions.mjs';

/** The oldest libraries that a prebuilt addon runs with: those of RHEL 9, Ubuntu 22.04 and Debian 12 are as new. */
export const FLOOR = { GLIBC: '2.34', GLIBCXX: '3.4.29', CXXABI: '1.3.13' };

/**
 * @param {string} file @param {NodeJS.ProcessEnv} [env]
 * @returns {{libraries: string[], runPath: string | null, versions: string[]}} the libraries it needs by name, where it
 * looks for them first, and the versions of symbols that they must have, such as GLIBC_2.34
 */
export function readNeeds(file, env = process.env) {
  if (!which('objdump', env)) throw new SetupError('objdump is missing: install binutils.');
  const { ok, stdout, stderr } = capture('objdump', ['-p', file], env);
  if (!ok) throw new SetupError(`objdump cannot read ${file}: ${stderr.trim()}.`);
  const all = (/** @type {RegExp} */ pattern) =>
    [...stdout.matchAll(pattern)].map(([, name]) => String(name));
  return {
    libraries: all(/^ +NEEDED +(\S+)$/gm),
    runPath: all(/^ +(?:RUNPATH|RPATH) +(\S+)$/gm)[0] ?? null,
    versions: all(/^ +0x[\da-f]+ 0x[\da-f]+ \d+ (\S+)$/gm),
  };
}

/** Those of the versions that are newer than the floor. @param {string[]} versions */
export function aboveFloor(versions) {
  return versions.filter((version) => {
    const [, library, number] = /^([A-Z]+)_([\d.]+)$/.exec(version) ?? [];
    const floor = Object.entries(FLOOR).find(([name]) => name === library)?.[1];
    return floor !== undefined && number !== undefined && number !== floor && atLeast(number, floor);
  });
}
