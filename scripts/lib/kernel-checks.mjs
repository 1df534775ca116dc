/** What the comparisons of acoer's CUDA kernels on this machine found; `src/engine/kernel-check.ts` makes and keeps them. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { cacheFolder } from './paths.mjs';

/**
 * @typedef {{file: string, card: string, right: boolean, text: string}} KernelCheck
 * `text`: of what, and what was found; a sentence without its full stop.
 */

/** @param {string} file @returns {KernelCheck | null} null: cut off when it was written, or of somebody else */
function readCheck(file) {
  try {
    const { madeWith, figures, crash } = JSON.parse(readFileSync(file, 'utf8'));
    const { card, dtype, quantization, hiddenSize, headDim } = madeWith;
    const kept = quantization ? `${dtype} with ${quantization} weights` : dtype;
    const of = `${card}, ${kept}, hidden size ${hiddenSize}, heads of ${headDim}`;
    const wrong = figures.filter((/** @type {{fault: string}} */ { fault }) => fault !== '');
    /** @param {boolean} right @param {string} found */
    const check = (right, found) => ({ file, card, right, text: `${of}: ${found}` });
    if (crash !== null) return check(false, `ended with ${crash}; none is used`);
    if (wrong.length === 0)
      return check(true, `${figures.length} comparisons agree with libtorch's operations`);
    return check(false, `${wrong[0].kernel} ${wrong[0].fault}`);
  } catch {
    return null;
  }
}

/** @param {NodeJS.ProcessEnv} env @returns {KernelCheck[]} */
export function kernelChecks(env) {
  const folder = join(dirname(cacheFolder(env)), 'gpu-check');
  if (!existsSync(folder)) return [];
  const files = readdirSync(folder).filter((name) => /^[0-9a-f]{64}\.json$/.test(name));
  return files.sort().flatMap((name) => readCheck(join(folder, name)) ?? []);
}
