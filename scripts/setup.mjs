#!/usr/bin/env node
/**
 * Finds or fetches libtorch and takes the prebuilt native addon or builds one. Run by npm (its `install` script),
 * `npm run build` and `acoer setup`; safe to run at any time, and done within seconds if nothing has changed.
 */
import { parseArgs } from 'node:util';
import { messageOf, SetupError } from './lib/errors.mjs';
import { findLibtorch } from './lib/find.mjs';
import { say } from './lib/log.mjs';
import { setup, setupPrebuilt, wantedFlavour } from './lib/setup.mjs';

const HELP = `usage: node scripts/setup.mjs [--flavour NAME] [--from-source] [--print | --prebuilt]

    --flavour NAME   cpu, cu126, cu128, cu130 or auto (CUDA if an NVIDIA driver is present); the choice is remembered
    --from-source    compile the engine even where a prebuilt one is installed
    --prebuilt       only take the prebuilt engine if its libtorch is on this machine; else print why not and exit with 1
    --print          only print the folder of the libtorch found on this machine; fetch and build nothing

Environment: LIBTORCH (a folder with include/ and lib/), ACOER_LIBTORCH_FLAVOUR, ACOER_LIBTORCH_MIRROR (replaces the
official archive's address; https or file), ACOER_LIBTORCH_SHA256 (of the archive, where none is pinned), ACOER_JOBS (parallel compilers), CXX, PYTHON, XDG_CACHE_HOME.
`;

async function main() {
  const { values } = parseArgs({
    options: {
      flavour: { type: 'string' },
      'from-source': { type: 'boolean' },
      prebuilt: { type: 'boolean' },
      print: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help) {
    process.stdout.write(HELP);
    return;
  }
  if (values.print) {
    const found = findLibtorch(process.env, wantedFlavour(values, process.env));
    if (!found) throw new SetupError('no libtorch found on this machine: run `node scripts/setup.mjs`.');
    process.stdout.write(`${found.root}\n`);
    return;
  }
  if (values.prebuilt) {
    const reason = setupPrebuilt();
    process.stdout.write(reason ?? '');
    if (reason !== null) process.exitCode = 1;
    return;
  }
  await setup(values);
}

main().catch((error) => {
  const usage =
    (error instanceof SetupError && 'usage' in error) ||
    (error instanceof TypeError && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS'));
  say(error instanceof SetupError || usage ? messageOf(error) : (error?.stack ?? String(error)));
  process.exitCode = usage ? 2 : 1;
});
