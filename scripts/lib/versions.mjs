/** Versions and flavours of libtorch: the pins, comparison, and which flavour this machine needs. */
import { readFileSync } from 'node:fs';
import { SetupError } from './errors.mjs';

/**
 * @typedef {{version: string, downloadGB: number, diskGB: number, driverAtLeast?: number, archiveSha256: string | null,
 * wheels: Record<string, string>}} FlavourPin `wheels`: SHA-256 by file name, torch's first.
 */
/** @type {{atLeast: string, below: string, archiveBase: string, flavours: Record<string, FlavourPin>}} */
export const pins = JSON.parse(readFileSync(new URL('./libtorch-versions.json', import.meta.url), 'utf8'));

/** @param {string} flavour a pinned flavour, as returned by `chooseFlavour` */
export function pinOf(flavour) {
  return /** @type {FlavourPin} */ (pins.flavours[flavour]);
}

/** @param {string} version */
function parts(version) {
  return version.split(/[.+]/).map((part) => Number.parseInt(part, 10) || 0);
}

/**
 * Whether `version` >= `bound`, compared over the bound's parts: 2.13.0 is at least 2.13.
 * @param {string} version @param {string} bound
 */
export function atLeast(version, bound) {
  const have = parts(version);
  for (const [i, want] of parts(bound).entries()) {
    const part = have[i] ?? 0;
    if (part !== want) return part > want;
  }
  return true;
}

/** Whether the source builds with this libtorch. @param {string} version */
export function isSupported(version) {
  return atLeast(version, pins.atLeast) && !atLeast(version, pins.below);
}

/** The range in words. */
export const supportedRange = `>= ${pins.atLeast} and < ${pins.below}`;

/**
 * The flavour to build for: the one asked for, else CUDA if the driver supports it, else cpu.
 * @param {string | undefined} asked @param {string | null} driver the NVIDIA driver's version
 * @returns {{flavour: string, why: string, asked: boolean}}
 */
export function chooseFlavour(asked, driver) {
  const names = Object.keys(pins.flavours);
  if (asked !== undefined && asked !== '' && asked !== 'auto') {
    if (!names.includes(asked)) {
      throw Object.assign(
        new SetupError(
          `there is no libtorch flavour "${asked}": set ACOER_LIBTORCH_FLAVOUR or --flavour to one of ${names.join(', ')} or auto.`,
        ),
        { usage: true },
      );
    }
    return { flavour: asked, why: 'asked for', asked: true };
  }
  if (driver === null) return { flavour: 'cpu', why: 'no NVIDIA driver here', asked: false };
  const [newest] = Object.entries(pins.flavours)
    .filter(([, { driverAtLeast }]) => driverAtLeast && atLeast(driver, String(driverAtLeast)))
    .sort(([, a], [, b]) => (b.driverAtLeast ?? 0) - (a.driverAtLeast ?? 0));
  if (newest === undefined)
    return { flavour: 'cpu', why: `NVIDIA driver ${driver} is too old for CUDA`, asked: false };
  return { flavour: newest[0], why: `NVIDIA driver ${driver}`, asked: false };
}
