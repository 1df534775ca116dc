/** Sweeps to report on, written by the tests instead of trained, and numbers of runs whose truth is known. */
import { normalsOf, streamSeed, uniformStream } from '../../src/base/rng';
import type { SeedRows } from '../../src/sweep/statistics';

/** Runs of `seeds` on `problems` whose expected value, over all seeds and problems, is `mean`. */
export function drawnRuns(
  key: number,
  mean: number,
  seeds: number,
  problems: number,
  seedStd: number,
): SeedRows {
  const normal = normalsOf(uniformStream(streamSeed(key, 'coverage')));
  const hardness = Array.from({ length: problems }, normal);
  return Array.from({ length: seeds }, () => {
    const own = seedStd * normal();
    return Float64Array.from(hardness, (hard) => mean + own + hard + 1.5 * normal());
  });
}
