/** Statistics of a method over its seeds: intervals, paired comparisons, Holm's correction, shares of collapsed runs. */
import { studentQuantile } from '../base/distributions';
import { quantileOfSorted } from '../base/statistics';
import { bootstrapDraws, wilsonInterval, type Interval } from '../eval';

/** With fewer seeds a method has points and no interval: an interval over problems alone is that of one run. */
export const FEWEST_SEEDS = 5;
const LEVEL = 0.05;

/** A quantity of each problem (columns) in the run of each seed (rows), the same problems in the same order. */
export type SeedRows = readonly Float64Array[];

export interface SeedEstimate {
  seeds: number;
  /** The statistic of the means over seeds and problems. */
  value: number;
  /** 95%; null: fewer seeds than `FEWEST_SEEDS`. */
  interval: Interval | null;
  /** Two-sided p of "the value is 0"; null where there is no interval. */
  p: number | null;
}

export interface TwoLevelOptions {
  /** Default 5,000. */
  resamples?: number;
  /** Default 42. */
  seed?: number;
}

/** One quantity under resampling: its mean, and how resamples differ from it by their seeds and by the rest. */
interface Resampled {
  mean: number;
  bySeeds: Float64Array;
  rest: Float64Array;
}

const rowMean = (row: Float64Array): number => row.reduce((sum, value) => sum + value, 0) / row.length;

/**
 * Seeds and problems are drawn with replacement, independently of each other, and a resample has every drawn
 * problem in the run of every drawn seed: the bootstrap for crossed data (Owen, "The pigeonhole bootstrap", 2007),
 * whose variance is never too small in expectation.
 */
function resampled(columns: readonly SeedRows[], options: TwoLevelOptions): Resampled[] {
  const { resamples = 5000, seed = 42 } = options;
  const [seeds, problems] = [columns[0]!.length, columns[0]![0]!.length];
  const [drawSeeds, drawProblems] = [bootstrapDraws(seed, 'seeds'), bootstrapDraws(seed, 'problems')];
  const [chosen, asked] = [new Int32Array(seeds), new Int32Array(problems)];
  const means = columns.map((rows) => rows.map(rowMean));
  const results = means.map((own) => ({
    mean: own.reduce((sum, value) => sum + value, 0) / seeds,
    bySeeds: new Float64Array(resamples),
    rest: new Float64Array(resamples),
  }));
  for (let r = 0; r < resamples; r++) {
    drawSeeds(chosen, seeds);
    drawProblems(asked, problems);
    for (let k = 0; k < columns.length; k++) {
      let [own, both] = [0, 0];
      for (const s of chosen) {
        const row = columns[k]![s]!;
        own += means[k]![s]!;
        let sum = 0;
        for (const problem of asked) sum += row[problem]!;
        both += sum / problems;
      }
      results[k]!.bySeeds[r] = own / seeds - results[k]!.mean;
      results[k]!.rest[r] = (both - own) / seeds;
    }
  }
  return results;
}

/**
 * How much larger the deviations of seeds must be than in the resamples: those of n values have (n - 1) / n of the
 * variance, and tails of a normal instead of Student's distribution (Hesterberg, "What teachers should know about
 * the bootstrap", 2015, section 4.3). Without it an interval of 5 seeds covers the truth 84 times in 100.
 */
const widening = (seeds: number, level: number): number =>
  seeds === 1
    ? 0
    : Math.sqrt(seeds / (seeds - 1)) * (studentQuantile(level, seeds - 1) / studentQuantile(level, Infinity));

type Statistic = (...means: number[]) => number;

function intervalAt(
  level: number,
  seeds: number,
  parts: readonly Resampled[],
  statistic: Statistic,
): Interval {
  const factor = widening(seeds, level);
  const values = Float64Array.from(parts[0]!.rest, (_, r) =>
    statistic(...parts.map(({ mean, bySeeds, rest }) => mean + factor * bySeeds[r]! + rest[r]!)),
  );
  // A ratio to 0 tokens has no interval.
  if (values.some(Number.isNaN)) return { low: NaN, high: NaN };
  values.sort();
  return { low: quantileOfSorted(values, level / 2), high: quantileOfSorted(values, 1 - level / 2) };
}

/** The smallest level whose interval excludes 0, at least twice the share of one resample. */
function pOf(seeds: number, parts: readonly Resampled[], statistic: Statistic): number {
  const excludes = (level: number) => {
    const { low, high } = intervalAt(level, seeds, parts, statistic);
    return low > 0 || high < 0;
  };
  let [least, most] = [2 / (parts[0]!.rest.length + 1), 1];
  if (excludes(least)) return least;
  for (let i = 0; i < 12; i++) {
    const middle = Math.sqrt(least * most);
    if (excludes(middle)) most = middle;
    else least = middle;
  }
  return most;
}

/**
 * A statistic of a method's means, such as a difference, with an interval for new seeds and new problems. Columns of
 * two methods are paired: a resample has the same seeds and problems of both.
 * @param columns at least one seed and one problem each
 */
export function overSeeds(
  columns: readonly SeedRows[],
  statistic: Statistic,
  options: TwoLevelOptions = {},
): SeedEstimate {
  const seeds = columns[0]!.length;
  if (seeds < FEWEST_SEEDS) {
    const means = columns.map((rows) => rows.reduce((sum, row) => sum + rowMean(row), 0) / seeds);
    return { seeds, value: statistic(...means), interval: null, p: null };
  }
  const parts = resampled(columns, options);
  const interval = intervalAt(LEVEL, seeds, parts, statistic);
  const value = statistic(...parts.map(({ mean }) => mean));
  return { seeds, value, interval, p: Number.isNaN(interval.low) ? null : pOf(seeds, parts, statistic) };
}

/** The same for one model, such as the base: an interval for new problems. @param columns a value of each problem */
export function overProblems(
  columns: readonly Float64Array[],
  statistic: Statistic,
  options: TwoLevelOptions = {},
): SeedEstimate {
  const parts = resampled(
    columns.map((row) => [row]),
    options,
  );
  const value = statistic(...parts.map(({ mean }) => mean));
  return { seeds: 1, value, interval: intervalAt(LEVEL, 1, parts, statistic), p: null };
}

export const itself: Statistic = (mean) => mean;
/** Of the second column from the first. */
export const difference: Statistic = (from, to) => to - from;
/** Of the second column from the first, as a fraction of it. */
export const change: Statistic = (from, to) => to / from - 1;

/**
 * p adjusted for several comparisons by Holm (1979): below the level where the family makes no false call more often
 * than that. Those that were not tested are null and do not count.
 */
export function holm(ps: readonly (number | null)[]): (number | null)[] {
  const tested = ps.flatMap((p, i) => (p === null ? [] : [{ p, i }])).sort((a, b) => a.p - b.p);
  const adjusted: (number | null)[] = ps.map(() => null);
  let largest = 0;
  for (const [rank, { p, i }] of tested.entries()) {
    largest = Math.max(largest, Math.min(1, (tested.length - rank) * p));
    adjusted[i] = largest;
  }
  return adjusted;
}

/** How many of some runs collapsed, with Wilson's interval of their share. */
export interface CollapsedShare {
  collapsed: number;
  runs: number;
  interval: Interval;
  /** Steps at which the collapses began, ascending. */
  steps: number[];
}

/** @param onsets of each run, at least one: the step at which its collapse began, null if it did not collapse */
export function collapsedShare(onsets: readonly (number | null)[]): CollapsedShare {
  const steps = onsets.filter((step) => step !== null).sort((a, b) => a - b);
  const [collapsed, runs] = [steps.length, onsets.length];
  return { collapsed, runs, interval: wilsonInterval(collapsed, runs), steps };
}
