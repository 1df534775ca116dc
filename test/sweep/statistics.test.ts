/** Intervals and tests over seeds against scipy and statsmodels (scripts/fixtures/sweep.py). */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fisherP, logGamma, studentP, studentQuantile } from '../../src/base/distributions';
import {
  change,
  collapsedShare,
  difference,
  FEWEST_SEEDS,
  holm,
  itself,
  overSeeds,
  type SeedRows,
} from '../../src/sweep/statistics';
import { drawnRuns as drawn } from '../helpers/swept-runs';

interface Range {
  values: number[];
  low: number;
  high: number;
}

const fixture = JSON.parse(
  readFileSync(join(__dirname, '..', 'fixtures', 'sweep', 'statistics.json'), 'utf8'),
) as {
  student: { freedom: number | null; t: number; p: number }[];
  holm: { p: number[]; adjusted: number[] }[];
  fisher: { a: number; n: number; b: number; m: number; p: number }[];
  wilson: { k: number; n: number; low: number; high: number }[];
  problemsOnly: Range;
  seedsOnly: Range[];
};

describe('distributions', () => {
  test.each(fixture.student)("Student's tail, freedom $freedom, t $t", ({ freedom, t, p }) => {
    const ours = studentP(t, freedom ?? Infinity);
    expect(Math.abs(ours - p)).toBeLessThan(1e-10 * p + 1e-15);
    // Where the distribution is not too steep for it.
    if (p > 1e-6 && p < 1) expect(studentQuantile(p, freedom ?? Infinity)).toBeCloseTo(t, 8);
  });

  test.each(fixture.fisher)("Fisher's test, $a of $n against $b of $m", ({ a, n, b, m, p }) => {
    expect(fisherP(a, n, b, m)).toBeCloseTo(p, 9);
    expect(fisherP(b, m, a, n)).toBeCloseTo(p, 9);
  });

  test('the gamma function at whole and half numbers', () => {
    expect(Math.exp(logGamma(5))).toBeCloseTo(24, 10);
    expect(Math.exp(logGamma(0.5))).toBeCloseTo(Math.sqrt(Math.PI), 12);
  });
});

test.each(fixture.holm)("Holm's correction of $p.length comparisons", ({ p, adjusted }) => {
  holm(p).forEach((value, i) => expect(value).toBeCloseTo(adjusted[i]!, 12));
});

test('what was not tested does not count in the correction', () => {
  expect(holm([null, 0.02, null, 0.03])).toEqual([null, 0.04, null, 0.04]);
  expect(holm([])).toEqual([]);
});

test.each(fixture.wilson)('$k of $n runs collapsed', ({ k, n, low, high }) => {
  const onsets = Array.from({ length: n }, (_, i) => (i < k ? 100 * (k - i) : null));
  const share = collapsedShare(onsets);
  expect(share).toMatchObject({ collapsed: k, runs: n });
  expect(share.steps).toEqual(Array.from({ length: k }, (_, i) => 100 * (i + 1)));
  expect(share.interval.low).toBeCloseTo(low, 9);
  expect(share.interval.high).toBeCloseTo(high, 9);
});

/** The same answers in every run. */
const sameInAll = (seeds: number, values: readonly number[]): SeedRows =>
  Array.from({ length: seeds }, () => Float64Array.from(values));

describe('one level at a time, against scipy', () => {
  // The ends of 5,000 resamples have a standard error of 1% of the width, so 5% is beyond chance.
  const expectClose = (ours: { low: number; high: number } | null, { low, high }: Range) => {
    const tolerance = 0.05 * (high - low);
    expect(Math.abs(ours!.low - low)).toBeLessThan(tolerance);
    expect(Math.abs(ours!.high - high)).toBeLessThan(tolerance);
  };

  test('problems, where all seeds are alike', () => {
    const { values } = fixture.problemsOnly;
    expectClose(overSeeds([sameInAll(6, values)], itself).interval, fixture.problemsOnly);
  });

  test.each(fixture.seedsOnly)('$values.length seeds, where all problems are alike', (expected) => {
    const rows = expected.values.map((value) => new Float64Array(7).fill(value));
    expectClose(overSeeds([rows], itself).interval, expected);
  });
});

describe('what an estimate says', () => {
  const rows = drawn(1, 5, FEWEST_SEEDS, 40, 0.5);

  test('the same runs give the same interval to the last bit, another stream another', () => {
    expect(overSeeds([rows], itself)).toEqual(overSeeds([rows], itself));
    expect(overSeeds([rows], itself, { seed: 7 })).not.toEqual(overSeeds([rows], itself));
  });

  test('fewer seeds have a value and no interval', () => {
    const few = overSeeds([rows.slice(1)], itself);
    expect(few).toMatchObject({ seeds: 4, interval: null, p: null });
    expect(few.value).toBeCloseTo(5, -1);
  });

  test('a change is a fraction of what was, and paired: a constant share has no spread', () => {
    const halved = rows.map((row) => row.map((value) => value / 2));
    const { value, interval, p } = overSeeds([rows, halved], change);
    expect(value).toBeCloseTo(-0.5, 12);
    expect(interval!.high - interval!.low).toBeLessThan(1e-12);
    expect(p).toBeCloseTo(2 / 5001, 12);
  });

  test('p and the interval agree on 0', () => {
    for (let key = 0; key < 30; key++) {
      const [a, b] = [drawn(key, 3, 6, 30, 0.4), drawn(key + 500, 3.8, 6, 30, 0.4)];
      const { interval, p } = overSeeds([a, b], difference, { resamples: 500, seed: key });
      expect(interval!.low > 0 || interval!.high < 0).toBe(p! <= 0.05);
    }
  });

  test('nothing differs: p is 1', () => {
    expect(overSeeds([rows, rows], difference).p).toBe(1);
  });

  test('a ratio to no tokens has no interval and no p', () => {
    const none = rows.map(() => new Float64Array(40));
    const { interval, p } = overSeeds([none, none], change);
    expect(interval).toEqual({ low: NaN, high: NaN });
    expect(p).toBeNull();
  });
});
