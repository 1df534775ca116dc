/**
 * Whether a share fell, and since when: compares the groups since some point with those before it, in
 * standard errors.
 *
 * The share of correct answers in a group varies more than tosses of one coin, because problems differ: its
 * variance is `dispersion` * m (1 - m) around the mean m. Two stretches of groups are compared by the
 * likelihood ratio of this quasi-binomial model (McCullagh and Nelder, Generalized Linear Models, chapters 4
 * and 9); its signed root is close to a standard normal when nothing changed, even where nearly all answers
 * are correct. The point of change is unknown, so the largest value over many is taken: a generalised
 * likelihood ratio test for a change (Siegmund and Venkatraman, "Using the generalized likelihood ratio
 * statistic for sequential detection of a change-point", 1995). In n groups there are about n / w windows of
 * w groups, and the longer the run, the more extreme the luckiest of them; so a multiple of ln(n / w) is
 * subtracted from the squared deviations (Dümbgen and Spokoiny, "Multiscale testing of qualitative
 * hypotheses", 2001), so that every length and every doubling of the run has about the same probability of a
 * false call.
 */
import type { History } from './history';

/** Each stretch tried is longer than the one before by at least this factor. */
const RECENT_RATIO = 1.4;
const BEFORE_RATIO = 2;
/** The share in question must itself have fallen by at least this fraction of the deviations found. */
const OWN = 2 / 3;

export interface Fall {
  /** Means of the first share before and since the point of change. */
  before: number;
  now: number;
  /** Numbers of groups compared. */
  groupsBefore: number;
  groups: number;
  /** Standard errors between them, for the share in which they differ most. */
  deviations: number;
  /** What is left of these after correcting for the number of windows. */
  excess: number;
}

/** The noise: a dispersion for each share, and the degrees of freedom of these estimates. */
export interface Noise {
  dispersions: readonly number[];
  freedom: number;
}

/** A fall to look for. */
export interface Sought {
  /** Indices of the shares compared. The first is the one in question; the others only add evidence. */
  shares: readonly number[];
  /** Minimum size: a fraction of the first share, and an excess. */
  drop: number;
  excess: number;
}

/** KL divergence between two Bernoulli distributions; 0 log 0 = 0. */
function divergence(share: number, from: number): number {
  const part = (a: number, b: number) => (a <= 0 ? 0 : a * Math.log(a / b));
  return part(share, from) + part(1 - share, 1 - from);
}

/** By how many standard errors the mean `now` of some groups is below the mean `before` of others. */
export function deviationsBelow(
  [groupsBefore, before]: readonly [number, number],
  [groups, now]: readonly [number, number],
  dispersion: number,
): number {
  const pooled = (groupsBefore * before + groups * now) / (groupsBefore + groups);
  // Rounding may push sums of fractions out of 0..1.
  if (!(pooled > 1e-9 && pooled < 1 - 1e-9)) return 0;
  const twice = 2 * (groupsBefore * divergence(before, pooled) + groups * divergence(now, pooled));
  return Math.sign(before - now) * Math.sqrt(Math.max(0, twice) / dispersion);
}

/** A deviation in Student's t distribution with `freedom` degrees as the nearly equivalent normal one. */
export const asNormal = (deviations: number, freedom: number): number =>
  Math.sign(deviations) * Math.sqrt(freedom * Math.log(1 + deviations ** 2 / freedom));

/** Cumulative sums over the last blocks: entry i covers the last i. */
class Sums {
  readonly groups: readonly number[];
  private readonly shares: readonly (readonly number[])[];

  constructor(history: History) {
    const running = (index: number) => {
      const sums = [0];
      for (let i = 1; i <= history.length; i++)
        sums.push(sums[i - 1]! + history[history.length - i]![index]!);
      return sums;
    };
    this.groups = running(0);
    this.shares = (history[0] ?? []).slice(1).map((_, share) => running(share + 1));
  }

  /** Mean of a share over the blocks from `last` to `first`, counted from the newest. */
  mean(of: number, last: number, first: number): number {
    const sums = this.shares[of]!;
    return (sums[first]! - sums[last]!) / (this.groups[first]! - this.groups[last]!);
  }
}

/** Two stretches: the last `recent` blocks, and the blocks before them up to the last `all`. */
interface Stretches {
  recent: number;
  all: number;
}

/** The largest deviation of any share, capped where the first share hardly fell. */
function compare(sums: Sums, { recent, all }: Stretches, shares: readonly number[], noise: Noise): number {
  const groups = sums.groups[recent]!;
  const groupsBefore = sums.groups[all]! - groups;
  let largest = 0;
  let own = 0;
  for (let i = 0; i < shares.length; i++) {
    const apart = deviationsBelow(
      [groupsBefore, sums.mean(shares[i]!, recent, all)],
      [groups, sums.mean(shares[i]!, 0, recent)],
      noise.dispersions[shares[i]!]!,
    );
    const deviations = asNormal(apart, noise.freedom);
    if (i === 0) own = deviations;
    largest = Math.max(largest, deviations);
  }
  return own >= OWN * largest ? largest : own / OWN;
}

/** Calls `see` with the stretches to compare. Both grow by a factor, so there are few. */
function eachStretches({ groups }: Sums, fewest: number, see: (pair: Stretches) => void): void {
  const blocks = groups.length - 1;
  const total = groups[blocks]!;
  let longer = fewest;
  for (let recent = 1; recent < blocks && total - groups[recent]! >= 2 * fewest; recent++) {
    const since = groups[recent]!;
    if (since < longer) continue;
    longer = since * RECENT_RATIO;
    let earlier = Math.max(2 * fewest, since);
    for (let all = recent + 1; all <= blocks; all++) {
      const before = groups[all]! - since;
      if (before < earlier && all < blocks) continue;
      earlier = before * BEFORE_RATIO;
      see({ recent, all });
    }
  }
}

/**
 * For normal deviations of given windows 2 would be enough. The rest accounts for the choice of the stretch
 * before, and for the heavier tails of short windows: with 2, runs of 5,000 steps had ten times the false
 * alarms of shorter ones.
 */
const PER_LOG_WINDOWS = 3;

const leftOver = (deviations: number, windows: number) =>
  Math.sqrt(Math.max(0, deviations ** 2 - PER_LOG_WINDOWS * Math.log(windows)));

/**
 * For each fall to look for, the one found with the largest excess, or null.
 * @param fewest minimum number of groups since the change; before it there must be twice as many
 */
export function largestFalls(
  history: History,
  noise: Noise,
  fewest: number,
  sought: readonly Sought[],
): (Fall | null)[] {
  const sums = new Sums(history);
  const total = sums.groups[history.length]!;
  const found: (Fall | null)[] = sought.map(() => null);
  eachStretches(sums, fewest, (pair) => {
    const { recent, all } = pair;
    const groups = sums.groups[recent]!;
    for (let i = 0; i < sought.length; i++) {
      const { shares, drop, excess: least } = sought[i]!;
      const before = sums.mean(shares[0]!, recent, all);
      const now = sums.mean(shares[0]!, 0, recent);
      if (before - now < drop) continue;
      const deviations = compare(sums, pair, shares, noise);
      const groupsBefore = sums.groups[all]! - groups;
      const excess = leftOver(deviations, total / Math.min(groups, groupsBefore));
      if (excess < (found[i]?.excess ?? least)) continue;
      found[i] = { before, now, groupsBefore, groups, deviations, excess };
    }
  });
  return found;
}
