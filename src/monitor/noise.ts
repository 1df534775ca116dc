/**
 * How much a share of right answers varies from group to group, estimated from the run itself. Plain JSON.
 *
 * Two sources. The answers within groups say how much of the variance m (1 - m) of a single answer lies between problems:
 * what group_std leaves (the law of total variance). Neighbouring batches, whose accuracy hardly ever changes from one to
 * the next, say what the groups really did; there are few of them where batches are large, so they correct the first.
 */
import type { Noise } from './change';

/** Groups that the levels span around which batches vary. */
const LEVEL_SPAN = 80;
/** Groups that the dispersion spans. */
const DISPERSION_SPAN = 2000;
/**
 * What pairs of batches are weighed against: the dispersion within groups, as if from `told` pairs; where the metrics do
 * not tell it, 0.5, which problems of very unequal difficulty have, as if from `untold`.
 */
const PRIOR = { dispersion: 0.5, untold: 20, told: 200, variance: 0.1 } as const;
/** Pairs of neighbours share batches: n of them say as much as 2n/3 independent ones. */
const INDEPENDENT = 2 / 3;
/** The most completions of a group that are looked for. */
const MOST_COMPLETIONS = 1024;
/** So near to a whole number of right answers is one, in metrics that were rounded too. */
const WHOLE = 0.01;

/**
 * Shares of a group, each lower when accuracy is lower. Where a fall turns groups that were all right into mixed ones, or
 * mixed ones into groups all wrong, the second and third show it sooner than accuracy alone.
 */
export const SHARE = { accuracy: 0, withAllRight: 1, withAnyRight: 2, anyRight: 3 } as const;
const SHARES = 4;

/** Means over the groups of a batch. */
export interface Batch {
  groups: number;
  shares: readonly number[];
  /** The standard deviation within groups; null: not told. */
  spread: number | null;
  /** The share of groups that have any, or 1. */
  mixed: number;
}

export interface NoiseRecord {
  last: Batch | null;
  /** Moving sums of the shares, the spread and the mixed groups, and of the weights. */
  level: readonly number[];
  levelWeight: number;
  /** Moving sums over pairs of neighbouring batches: the variance of a group seen in them, that which the spread implies, m (1 - m). */
  seen: readonly number[];
  implied: readonly number[];
  possible: readonly number[];
  pairs: number;
  /** Completions of a group, of which the accuracies of all batches are whole multiples; null: not told. */
  completions: number | null;
}

const zeros = (): number[] => Array.from({ length: SHARES }, () => 0);

export const noNoise = (): NoiseRecord => ({
  last: null,
  level: [...zeros(), 0, 0],
  levelWeight: 0,
  seen: zeros(),
  implied: zeros(),
  possible: zeros(),
  pairs: 0,
  completions: 1,
});

export const keeping = (span: number, groups: number) => (1 - 2 / (span + 1)) ** groups;

/** The smallest multiple of `known` completions a group of which so many groups can have this accuracy. */
function completionsOf(known: number | null, { groups, shares, spread }: Batch): number | null {
  if (known === null || spread === null) return null;
  for (let n = known; n <= MOST_COMPLETIONS; n += known) {
    const right = shares[SHARE.accuracy]! * groups * n;
    if (Math.abs(right - Math.round(right)) < WHOLE) return n;
  }
  return null;
}

/**
 * Variances of the shares of a group, by the levels: x is the share of right answers, I whether all are right, J whether
 * any is, and E[x I] = E[I], E[x J] = E[x].
 */
function impliedVariances(means: readonly number[], completions: number): number[] {
  const [accuracy, withAllRight, , anyRight, spread, mixed] = means as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const allRight = 2 * withAllRight - accuracy;
  const single = accuracy * (1 - accuracy);
  // The mean of squares is at least the square of the mean, so that this is at most what lies within.
  const within = mixed > 0 ? (((completions - 1) / completions) * spread ** 2) / mixed : 0;
  const between = Math.max(single / completions, single - within);
  return [
    between,
    (between + allRight * (1 - allRight) + 2 * allRight * (1 - accuracy)) / 4,
    (between + anyRight * (1 - anyRight) + 2 * accuracy * (1 - anyRight)) / 4,
    anyRight * (1 - anyRight),
  ];
}

/** The record with one more batch. */
export function withNoise(before: NoiseRecord, batch: Batch): NoiseRecord {
  const { groups, shares, spread, mixed } = batch;
  const keep = keeping(LEVEL_SPAN, groups);
  const level = [...shares, spread ?? 0, mixed].map(
    (value, i) => keep * before.level[i]! + (1 - keep) * value,
  );
  const levelWeight = keep * before.levelWeight + (1 - keep);
  const completions = completionsOf(before.completions, batch);
  const after = { ...before, last: batch, level, levelWeight, completions };
  if (before.last === null) return after;
  const forget = keeping(DISPERSION_SPAN, groups);
  const perGroup = 1 / (1 / groups + 1 / before.last.groups);
  const means = level.map((sum) => sum / levelWeight);
  const implied = impliedVariances(means, completions ?? 1);
  return {
    ...after,
    seen: shares.map(
      (share, i) => forget * before.seen[i]! + perGroup * (share - before.last!.shares[i]!) ** 2,
    ),
    implied: implied.map((variance, i) => forget * before.implied[i]! + variance),
    possible: shares.map((_, i) => forget * before.possible[i]! + means[i]! * (1 - means[i]!)),
    pairs: forget * before.pairs + 1,
  };
}

export function noiseOf({ seen, implied, possible, pairs, completions }: NoiseRecord): Noise {
  const told = completions !== null;
  const weight = told ? PRIOR.told : PRIOR.untold;
  const dispersions = seen.map((square, i) => {
    const prior = told && possible[i]! > 0 ? implied[i]! / possible[i]! : PRIOR.dispersion;
    const estimate = (square + weight * prior * PRIOR.variance) / (possible[i]! + weight * PRIOR.variance);
    return Math.min(1, Math.max(0.02, estimate));
  });
  return { dispersions, freedom: INDEPENDENT * pairs + weight };
}
