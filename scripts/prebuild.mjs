/**
 * Fills packages/linux-x64-cpu with the addons that this checkout builds, stripped. `npm pack -w packages/linux-x64-cpu`
 * runs it. What the package cannot promise ends it: another libtorch, newer system libraries, a path of this machine.
 *
 * usage: node scripts/prebuild.mjs
 */
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { scriptArguments } from './lib/arguments.mjs';
import { readState } from './lib/build.mjs';
import { aboveFloor, readNeeds } from './lib/elf.mjs';
import { messageOf, SetupError } from './lib/errors.mjs';
import { formatBytes } from './lib/log.mjs';
import { ADDONS, LIBTORCH_LINK, packageRoot, releaseFolder } from './lib/paths.mjs';
import { BINARY, sourcesDigest } from './lib/prebuilt.mjs';
import { capture } from './lib/run.mjs';
import { setup } from './lib/setup.mjs';
import { pinOf } from './lib/versions.mjs';

const FLAVOUR = 'cpu';
const folder = join(packageRoot, 'packages', 'linux-x64-cpu');
/** Of libtorch's libraries, and found through the link; all others are the system's. */
const OF_LIBTORCH = /^lib(torch|c10|gomp)/;

/** Copies one addon without what only a debugger reads. @param {string} name @returns what it needs of libtorch */
function copyStripped(name) {
  const file = join(folder, name);
  copyFileSync(join(releaseFolder, name), file);
  const { ok, stderr } = capture('strip', ['--strip-unneeded', file], process.env);
  if (!ok) throw new SetupError(`strip (of binutils) failed on ${file}: ${stderr.trim()}.`);
  const { libraries, runPath, versions } = readNeeds(file);
  const tooNew = aboveFloor(versions);
  if (tooNew.length > 0)
    throw new SetupError(`${name} needs ${tooNew.join(', ')}: build it on Debian 12 or with its compiler.`);
  const own = libraries.filter((library) => OF_LIBTORCH.test(library));
  const expected = own.length === 0 ? null : `$ORIGIN/${LIBTORCH_LINK}`;
  if (runPath !== expected)
    throw new SetupError(`${name} looks for libraries in ${runPath}, not ${expected}.`);
  console.log(`${name}: ${formatBytes(readFileSync(file).length)}, needs ${versions.sort().join(' ')}`);
  return own;
}

async function main() {
  scriptArguments(import.meta.url, { options: {} });
  await setup({});
  const { version, flavour } = /** @type {import('./lib/build.mjs').SetupState} */ (readState());
  const wanted = pinOf(FLAVOUR).version;
  if (version !== wanted || flavour !== FLAVOUR)
    throw new SetupError(
      `the engine here is built for libtorch ${version} (${flavour}), and the package is for ${wanted} (${FLAVOUR}): run \`node scripts/setup.mjs --flavour ${FLAVOUR}\`.`,
    );
  const libraries = [...new Set(ADDONS.flatMap(copyStripped))];
  const binary = { libtorch: version, flavour, libraries, sources: sourcesDigest() };
  writeFileSync(join(folder, BINARY), `${JSON.stringify(binary, null, 2)}\n`);
}

main().catch((error) => {
  console.error(error instanceof SetupError ? messageOf(error) : error);
  process.exitCode = 1;
});
