/** What the monitor keeps of the accuracy of batches, and whether it fell. Plain JSON. */
import type { KnownMetrics } from '../metric-names';
import { largestFalls, type Fall, type Noise } from './change';
import { withBlock, type History } from './history';
import { READ } from './names';

/**
 * Shares of a group, each lower when accuracy is lower. Where a fall turns groups that were all right into mixed ones, or
 * mixed ones into groups all wrong, the second and third show it sooner than accuracy alone.
 */
const SHARE = { accuracy: 0, withAllRight: 1, withAnyRight: 2, anyRight: 3 } as const;
const SHARES = 4;

/** Groups that the mean around which batches vary spans. */
const LEVEL_SPAN = 80;
/** Groups that the dispersion spans. */
const DISPERSION_SPAN = 2000;
/** Before anything is seen: a dispersion of 0.5, which problems of very unequal difficulty have, as if from 20 pairs. */
const PRIOR = { dispersion: 0.5, pairs: 20, variance: 0.1 } as const;
/** Pairs of neighbours share batches: n of them say as much as 2n/3 independent ones. */
const INDEPENDENT = 2 / 3;

export interface AccuracyRecord {
  groups: number;
  history: History;
  /** Of the last batch. */
  last: { groups: number; shares: readonly number[] } | null;
  /** Moving sums of the shares, and of the weights. */
  level: readonly number[];
  levelWeight: number;
  /** Moving sums over pairs of neighbouring batches: the variance of a group seen in them, and m (1 - m). */
  seen: readonly number[];
  possible: readonly number[];
  pairs: number;
}

const zeros = (): number[] => Array.from({ length: SHARES }, () => 0);

export const noAccuracy = (): AccuracyRecord => ({
  groups: 0,
  history: [],
  last: null,
  level: zeros(),
  levelWeight: 0,
  seen: zeros(),
  possible: zeros(),
  pairs: 0,
});

/** The shares of a batch. What its metrics lack is put so that it adds nothing to accuracy. */
function sharesOf(metrics: KnownMetrics, accuracy: number): number[] {
  const allRight = metrics[READ.allCorrect] ?? accuracy;
  const anyRight = 1 - (metrics[READ.allWrong] ?? 1 - accuracy);
  return [accuracy, (accuracy + allRight) / 2, (accuracy + anyRight) / 2, anyRight];
}

const keeping = (span: number, groups: number) => (1 - 2 / (span + 1)) ** groups;

/** The record with one more batch. Two neighbouring batches show the noise, and hardly ever a change. */
export function withAccuracy(before: AccuracyRecord, metrics: KnownMetrics, groups: number): AccuracyRecord {
  const accuracy = metrics[READ.accuracy];
  if (accuracy === undefined || !(accuracy >= 0 && accuracy <= 1)) return before;
  const shares = sharesOf(metrics, accuracy);
  const keep = keeping(LEVEL_SPAN, groups);
  const level = shares.map((share, i) => keep * before.level[i]! + (1 - keep) * share);
  const levelWeight = keep * before.levelWeight + (1 - keep);
  const history = withBlock(before.history, [groups, ...shares.map((share) => groups * share)]);
  const after = {
    ...before,
    groups: before.groups + groups,
    history,
    last: { groups, shares },
    level,
    levelWeight,
  };
  if (before.last === null) return after;
  const { groups: lastGroups, shares: last } = before.last;
  const forget = keeping(DISPERSION_SPAN, groups);
  const perGroup = 1 / (1 / groups + 1 / lastGroups);
  return {
    ...after,
    seen: shares.map((share, i) => forget * before.seen[i]! + perGroup * (share - last[i]!) ** 2),
    possible: level.map((sum, i) => {
      const mean = sum / levelWeight;
      return forget * before.possible[i]! + mean * (1 - mean);
    }),
    pairs: forget * before.pairs + 1,
  };
}

function noiseOf({ seen, possible, pairs }: AccuracyRecord): Noise {
  const { dispersion, pairs: weight, variance } = PRIOR;
  const dispersions = seen.map((square, i) => {
    const estimate = (square + weight * dispersion * variance) / (possible[i]! + weight * variance);
    return Math.min(1, Math.max(0.02, estimate));
  });
  return { dispersions, freedom: INDEPENDENT * pairs + weight };
}

/** A fall by at least so much, and by so many standard errors; null: it is not looked for. */
export type Least = { drop: number; excess: number } | null;

export interface Falls {
  /** Of accuracy, as a collapse and as a warning ask for it. */
  collapse: Fall | null;
  warning: Fall | null;
  /** Of the share of groups with a right answer. */
  anyRight: Fall | null;
}

const ACCURACY = [SHARE.accuracy, SHARE.withAllRight, SHARE.withAnyRight];
const NEVER = { drop: Infinity, excess: Infinity };

/** How far accuracy fell, and since when. @param fewest groups that a fall is found in */
export function accuracyFalls(
  record: AccuracyRecord,
  fewest: number,
  { collapse, warning, anyRight }: Readonly<Record<keyof Falls, Least>>,
): Falls {
  const found = largestFalls(record.history, noiseOf(record), fewest, [
    { shares: ACCURACY, ...(collapse ?? NEVER) },
    { shares: ACCURACY, ...(warning ?? NEVER) },
    { shares: [SHARE.anyRight], ...(anyRight ?? NEVER) },
  ]);
  return { collapse: found[0]!, warning: found[1]!, anyRight: found[2]! };
}
