/**
 * Whether a share fell, and since when: the groups since some moment against those before it, in standard errors.
 *
 * The share of right answers in a group varies more than tosses of one coin do, because problems differ: its variance is
 * `dispersion` * m (1 - m) around the mean m. Two stretches of groups are compared by the likelihood ratio of this
 * quasi-binomial model (McCullagh and Nelder, Generalized Linear Models, chapters 4 and 9); its signed root is close to a
 * standard normal when nothing changed, also where nearly all answers are right. Nobody knows the moment, so the largest
 * value over many is taken: a generalised likelihood ratio test for a change (Siegmund and Venkatraman, "Using the
 * generalized likelihood ratio statistic for sequential detection of a change-point", 1995). Of n groups seen there are
 * about n / w windows of w groups, and the longer a run, the larger the luckiest of them; so a multiple of
 * ln(n / w) is taken off the squared deviations (Dümbgen and Spokoiny, "Multiscale testing of qualitative hypotheses",
 * 2001), so that every length and every doubling of the run has about the same probability of a false call.
 */
import type { History } from './history';

/** Each stretch tried is at least this factor longer than the one before. */
const RECENT_RATIO = 1.4;
const BEFORE_RATIO = 2;
/** The share that is asked about must itself lie this much of the found deviations below. */
const OWN = 2 / 3;

export interface Fall {
  /** Means of the first share before the moment and since. */
  before: number;
  now: number;
  /** Groups compared. */
  groupsBefore: number;
  groups: number;
  /** Standard errors between them, of the share they are farthest apart in. */
  deviations: number;
  /** What is left of these once the number of windows is taken into account. */
  excess: number;
}

/** What is known of the noise: a dispersion for each share, and the degrees of freedom of these estimates. */
export interface Noise {
  dispersions: readonly number[];
  freedom: number;
}

/** A fall that is looked for. */
export interface Sought {
  /** Indices of the shares compared. The first is the one asked about; the others only add evidence. */
  shares: readonly number[];
  /** What it must come to: a fraction, of the first share, and an excess. */
  drop: number;
  excess: number;
}

/** KL divergence of two coins; 0 log 0 = 0. */
function divergence(share: number, from: number): number {
  const part = (a: number, b: number) => (a <= 0 ? 0 : a * Math.log(a / b));
  return part(share, from) + part(1 - share, 1 - from);
}

/** Standard errors that the mean `now` of some groups lies below the mean `before` of others; negative when above. */
export function deviationsBelow(
  [groupsBefore, before]: readonly [number, number],
  [groups, now]: readonly [number, number],
  dispersion: number,
): number {
  const pooled = (groupsBefore * before + groups * now) / (groupsBefore + groups);
  // Sums of fractions may leave 0..1 by a rounding error.
  if (!(pooled > 1e-9 && pooled < 1 - 1e-9)) return 0;
  const twice = 2 * (groupsBefore * divergence(before, pooled) + groups * divergence(now, pooled));
  return Math.sign(before - now) * Math.sqrt(Math.max(0, twice) / dispersion);
}

/** A deviation in Student's distribution of `freedom` degrees as the normal one that is about as unlikely. */
export const asNormal = (deviations: number, freedom: number): number =>
  Math.sign(deviations) * Math.sqrt(freedom * Math.log(1 + deviations ** 2 / freedom));

/** Sums over the last blocks: entry i is over the last i of them. */
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

/** Two stretches: the last `recent` blocks, and those before them up to the last `all`. */
interface Stretches {
  recent: number;
  all: number;
}

/** The most standard errors that any of the shares lies below; held down where the first one hardly does. */
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

/** Calls `see` with the stretches that are compared. Both get longer by a factor, so that there are few. */
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
 * 2 would do for normal deviations of windows that are given. The rest is for the stretch before, which is chosen too, and for
 * the heavier tails of short windows: with 2, runs of 5,000 steps had ten times the false calls of shorter ones.
 */
const PER_LOG_WINDOWS = 3;

const leftOver = (deviations: number, windows: number) =>
  Math.sqrt(Math.max(0, deviations ** 2 - PER_LOG_WINDOWS * Math.log(windows)));

/**
 * Of each fall that is looked for, the one with the largest excess, or null.
 * @param fewest groups since the moment; before it there must be twice as many
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
