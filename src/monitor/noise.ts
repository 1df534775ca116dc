/**
 * How much the share of correct answers varies from group to group, estimated from the run itself. Plain
 * JSON.
 *
 * There are two sources. By the law of total variance, the part of a single answer's variance m (1 - m) that
 * group_std does not explain is between problems. And neighbouring batches, whose true accuracy hardly
 * changes, show the actual variation; with large batches there are few of them, so they only correct the
 * first estimate.
 */
import type { Noise } from './change';

/** Span, in groups, of the levels around which batches vary. */
const LEVEL_SPAN = 80;
/** Span of the dispersion, in groups. */
const DISPERSION_SPAN = 2000;
/**
 * The prior that pairs of batches are weighed against: the dispersion from within the groups, worth `told`
 * pairs, or if the metrics lack it, 0.5 (problems of very unequal difficulty), worth `untold` pairs.
 */
const PRIOR = { dispersion: 0.5, untold: 20, told: 200, variance: 0.1 } as const;
/** Neighbouring pairs share batches, so n of them are worth 2n/3 independent ones. */
const INDEPENDENT = 2 / 3;
/** The largest group size to consider. */
const MOST_COMPLETIONS = 1024;
/** A number of correct answers within this of an integer counts as one, since metrics may be rounded. */
const WHOLE = 0.01;

/**
 * Shares of a group, all of which fall with accuracy. When a fall turns all-correct groups into mixed ones,
 * or mixed groups into all-wrong ones, the second and third show it sooner than accuracy alone.
 */
export const SHARE = { accuracy: 0, withAllRight: 1, withAnyRight: 2, anyRight: 3 } as const;
const SHARES = 4;

/** Means over the groups of a batch. */
export interface Batch {
  groups: number;
  shares: readonly number[];
  /** The standard deviation within groups, or null if not known. */
  spread: number | null;
  /** The fraction of groups with any deviation, or 1. */
  mixed: number;
}

export interface NoiseRecord {
  last: Batch | null;
  /** Moving sums of the shares, of `spread` and of `mixed`, and of the weights. */
  level: readonly number[];
  levelWeight: number;
  /**
   * Moving sums over pairs of neighbouring batches: the variance of a group seen in them, the variance that
   * the spread implies, and m (1 - m).
   */
  seen: readonly number[];
  implied: readonly number[];
  possible: readonly number[];
  pairs: number;
  /** The group size, whose inverse divides the accuracies of all batches; null if not known. */
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

/** The smallest multiple of `known` that, as a group size, can give this batch's accuracy. */
function completionsOf(known: number | null, { groups, shares, spread }: Batch): number | null {
  if (known === null || spread === null) return null;
  for (let n = known; n <= MOST_COMPLETIONS; n += known) {
    const right = shares[SHARE.accuracy]! * groups * n;
    if (Math.abs(right - Math.round(right)) < WHOLE) return n;
  }
  return null;
}

/**
 * Variances of a group's shares at the given levels, where x is the share of correct answers, I whether all
 * are correct, J whether any is, so that E[x I] = E[I] and E[x J] = E[x].
 */
function impliedVariances(means: readonly number[], completions: number): number[] {
  const [accuracy = 0, withAllRight = 0, , anyRight = 0, spread = 0, mixed = 0] = means;
  const allRight = 2 * withAllRight - accuracy;
  const single = accuracy * (1 - accuracy);
  // The mean of squares is at least the square of the mean, so this is a lower bound on the variance within
  // groups.
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
