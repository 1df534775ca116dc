/** The change of accuracy between two evaluations of the same problems: how large it is, and how sure. */
import type { Interval } from './bootstrap';
import { mcnemarP } from './compare';

export interface AccuracyChange {
  /** Problems. */
  n: number;
  /** Fractions. */
  before: number;
  after: number;
  difference: number;
  /** 95%. */
  interval: Interval;
  /** Two-sided, of "no change". */
  p: number;
}

/** One answer a problem; `solved` in the order of the problems, null when nobody kept it. */
export interface Solved {
  n: number;
  accuracy: number;
  solved: readonly boolean[] | null;
}

const Z95 = 1.959963984540054;

/** Two-sided p of a standard normal number (Abramowitz and Stegun, 7.1.26: to 1.5e-7). */
function normalP(z: number): number {
  const x = Math.abs(z) / Math.SQRT2;
  const t = 1 / (1 + 0.3275911 * x);
  const terms = [1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592];
  return terms.reduce((sum, term) => (sum + term) * t, 0) * Math.exp(-x * x);
}

const around = (difference: number, error: number): Interval => ({
  low: Math.max(-1, difference - Z95 * error),
  high: Math.min(1, difference + Z95 * error),
});

/**
 * Interval of a paired difference by Agresti and Min (2005): half an observation more in each cell. The bootstrap has no
 * width when nothing changed, however few the problems.
 * @param lost problems solved before alone @param gained after alone
 */
export function pairedInterval(lost: number, gained: number, n: number): Interval {
  const [b, c, m] = [lost + 0.5, gained + 0.5, n + 2];
  return around((c - b) / m, Math.sqrt(b + c - (c - b) ** 2 / m) / m);
}

/** Paired by problem where that is known: exact McNemar. Else two proportions (Agresti and Caffo, 2000). */
export function accuracyChange(a: Solved, b: Solved): AccuracyChange {
  const of = { n: b.n, before: a.accuracy, after: b.accuracy, difference: b.accuracy - a.accuracy };
  if (a.solved !== null && b.solved !== null && a.solved.length === b.solved.length) {
    const { solved } = b;
    const lost = a.solved.filter((was, i) => was && !solved[i]).length;
    const gained = a.solved.filter((was, i) => !was && solved[i]!).length;
    return { ...of, interval: pairedInterval(lost, gained, solved.length), p: mcnemarP(lost, gained) };
  }
  const shrunk = ({ accuracy, n }: Solved) => (accuracy * n + 1) / (n + 2);
  const [pa, pb] = [shrunk(a), shrunk(b)];
  const error = Math.sqrt((pa * (1 - pa)) / (a.n + 2) + (pb * (1 - pb)) / (b.n + 2));
  return { ...of, interval: around(pb - pa, error), p: normalP((pb - pa) / error) };
}
