/**
 * Which of acoer's CUDA kernels a driver and its cards take, by the rules of `native/core/kernels/gpu/card.cpp`, which
 * asks the driver itself when an engine starts.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from './paths.mjs';
import { atLeast } from './versions.mjs';

const RECORD = join(packageRoot, 'assets', 'kernels', 'kernels.json');
const CAPABILITY_AT_LEAST = '8.0';
/** The set for older drivers is machine code, and this is the first card that it is not for. */
const NOT_BY_OLDER_SET = '10.0';
const UNTRIED = ', which have never run on a card';

/** @returns {{newest: number, oldest: number}} drivers that the two sets of kernels need */
export function driversNeeded() {
  /** @type {Record<string, {driverAtLeast: number}>} */
  const sets = JSON.parse(readFileSync(RECORD, 'utf8'));
  const drivers = Object.values(sets).map(({ driverAtLeast }) => driverAtLeast);
  return { newest: Math.max(...drivers), oldest: Math.min(...drivers) };
}

/**
 * @param {string} driver such as "550.54.14"
 * @param {string | null} capability of a card, such as "8.6"
 * @returns {{usable: boolean, text: string}} `text` is a sentence without its full stop
 */
export function kernelsFor(driver, capability) {
  const { newest, oldest } = driversNeeded();
  const instead = "libtorch's operations do their work";
  const none = (/** @type {string} */ why) => ({
    usable: false,
    text: `acoer's CUDA kernels need ${why}: ${instead}`,
  });
  if (capability !== null && !atLeast(capability, CAPABILITY_AT_LEAST))
    return none(`a card of compute capability ${CAPABILITY_AT_LEAST} or newer; this one has ${capability}`);
  if (atLeast(driver, String(newest)))
    return { usable: true, text: `those for drivers of ${newest} and newer${UNTRIED}` };
  if (!atLeast(driver, String(oldest)))
    return none(`NVIDIA driver ${oldest} or newer; this one is ${driver}`);
  if (capability !== null && atLeast(capability, NOT_BY_OLDER_SET)) {
    return none(
      `NVIDIA driver ${newest} or newer on a card of compute capability ${capability}; this driver is ${driver}`,
    );
  }
  return { usable: true, text: `those for drivers of ${oldest} to ${newest - 1}${UNTRIED}` };
}
