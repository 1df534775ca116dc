/** Records the runs of a study on the embedded model, one thread each; existing runs are kept. */
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');

/**
 * @param {string} sentence
 * @returns {never}
 */
function badUsage(sentence) {
  console.error(sentence);
  process.exit(2);
}

/**
 * '1-3,7' becomes [1, 2, 3, 7].
 *
 * @param {string} text
 */
export function seedsOf(text) {
  if (!/^\d+(-\d+)?(,\d+(-\d+)?)*$/.test(text)) badUsage(`--seeds ${text}: expected a list such as 1-3,7`);
  return text.split(',').flatMap((part) => {
    const [first = NaN, last = first] = part.split('-').map(Number);
    return Array.from({ length: last - first + 1 }, (_, i) => first + i);
  });
}

/**
 * A run of a study; `set` has `path=value` entries as for `acoer train --set`.
 *
 * @typedef {{ kind: string; preset: string; seed: number; set: string[] }} StudyRun
 */

/**
 * Trains one run and returns its exit code.
 *
 * @param {string} out
 * @param {StudyRun} run
 * @returns {Promise<number | null>}
 */
function trainOne(out, { preset, seed, set }) {
  if (existsSync(join(out, 'summary.json'))) return Promise.resolve(0);
  rmSync(out, { recursive: true, force: true });
  const words = ['train', '--preset', preset, '--seed', String(seed), '--threads', '1', '--out', out];
  for (const value of [...set, 'completionsSteps=0']) words.push('--set', value);
  const env = { ...process.env, OMP_WAIT_POLICY: 'passive' };
  const child = spawn(process.execPath, [join(root, 'dist/cli/main.js'), ...words], { env, stdio: 'ignore' });
  return new Promise((resolve, reject) => child.on('error', reject).on('exit', resolve));
}

/**
 * Trains all runs, `jobs` at a time.
 *
 * @param {string} folder each run gets the folder `<kind>-<seed>` in it
 * @param {readonly StudyRun[]} runs
 * @param {number} jobs
 */
export async function recordRuns(folder, runs, jobs) {
  if (!Number.isInteger(jobs) || jobs < 1) badUsage('--jobs must be a whole number of at least 1');
  mkdirSync(folder, { recursive: true });
  const queue = [...runs];
  const worker = async () => {
    for (let run = queue.shift(); run !== undefined; run = queue.shift()) {
      const code = await trainOne(join(folder, `${run.kind}-${run.seed}`), run);
      console.log(`${run.kind} ${run.seed}: ${code === 0 ? 'done' : `exit ${code}`}`);
      if (code !== 0) process.exitCode = 1;
    }
  };
  await Promise.all(Array.from({ length: jobs }, worker));
}
