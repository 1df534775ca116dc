'use strict';
// Loads the addons of a folder in a separate process, so that a broken one cannot take down the caller. argv: file, devices...
const { availableParallelism, constants } = require('node:os');
const { dirname, join } = require('node:path');
process.env.OMP_WAIT_POLICY ??= 'passive';

/** @param {any} addon @param {string} device */
async function deviceFacts(addon, device) {
  try {
    const engine = new addon.Engine({ device, threads: availableParallelism() });
    const info = engine.deviceInfo();
    await engine.dispose();
    return { device, info };
  } catch (error) {
    return { device, error: error instanceof Error ? error.message : String(error) };
  }
}

async function main() {
  const [file, ...devices] = /** @type {[string, ...string[]]} */ (process.argv.slice(2));
  // At once: a function that libtorch lacks would otherwise be missed only when it is first called.
  /** @type {{exports: any}} */
  const loaded = { exports: {} };
  process.dlopen(loaded, file, constants.dlopen.RTLD_NOW);
  const addon = loaded.exports;
  for (const name of ['lock.node', 'ranks.node'])
    process.dlopen({ exports: {} }, join(dirname(file), name), constants.dlopen.RTLD_NOW);
  const build = addon.buildInfo();
  const facts = [];
  for (const device of devices) facts.push(await deviceFacts(addon, device));
  process.stdout.write(`${JSON.stringify({ build, devices: facts })}\n`);
}

main().catch((error) => {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
});
