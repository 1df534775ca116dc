/** Intervals and tests over seeds on data whose truth is known. */
import { difference, itself, overSeeds } from '../../src/sweep/statistics';
import { drawnRuns as drawn } from '../helpers/swept-runs';

const SIMULATIONS = 400;
const keys = Array.from({ length: SIMULATIONS }, (_, key) => key);

// A share of 400 has a standard error of 1.1% at 95%; Owen's bootstrap errs to the wide side.
test.each([
  { seeds: 5, seedStd: 0.4 },
  { seeds: 5, seedStd: 0 },
  { seeds: 12, seedStd: 0.4 },
])('a 95% interval of $seeds seeds that vary by $seedStd covers it in 92 to 99.5%', ({ seeds, seedStd }) => {
  const covered = keys.filter((key) => {
    const rows = drawn(key, 3, seeds, 60, seedStd);
    const { low, high } = overSeeds([rows], itself, { resamples: 400, seed: key }).interval!;
    return low <= 3 && 3 <= high;
  });
  expect(covered.length / SIMULATIONS).toBeGreaterThanOrEqual(0.92);
  expect(covered.length / SIMULATIONS).toBeLessThanOrEqual(0.995);
});

test('two equal methods differ at p < 0.05 in at most 7%, two unequal ones nearly always', () => {
  const calls = (apart: number) =>
    keys.filter((key) => {
      const [a, b] = [drawn(key, 3, 5, 60, 0.4), drawn(key + 10_000, 3 + apart, 5, 60, 0.4)];
      return overSeeds([a, b], difference, { resamples: 400, seed: key }).p! < 0.05;
    }).length / SIMULATIONS;
  expect(calls(0)).toBeLessThanOrEqual(0.07);
  expect(calls(3)).toBeGreaterThanOrEqual(0.9);
});
