/** The change of accuracy between two evaluations of the same problems: its size and its uncertainty. */
import { normalP } from '../base/statistics';
import type { Interval } from './bootstrap';
import { mcnemarP } from './compare';

export interface AccuracyChange {
  /** Number of problems. */
  n: number;
  /** Accuracy as a fraction, 0..1. */
  before: number;
  after: number;
  difference: number;
  /** 95% interval of the difference. */
  interval: Interval;
  /** Two-sided p of "no change". */
  p: number;
}

/** One answer per problem; `solved` is in problem order, or null if it was not kept. */
export interface Solved {
  n: number;
  accuracy: number;
  solved: readonly boolean[] | null;
}

const Z95 = 1.959963984540054;

const around = (difference: number, error: number): Interval => ({
  low: Math.max(-1, difference - Z95 * error),
  high: Math.min(1, difference + Z95 * error),
});

/**
 * Interval of a paired difference by Agresti and Min (2005), who add half an observation to each cell. Unlike
 * the bootstrap, it does not shrink to nothing when no problem changed.
 * @param lost problems solved only before @param gained problems solved only after
 */
export function pairedInterval(lost: number, gained: number, n: number): Interval {
  const [b, c, m] = [lost + 0.5, gained + 0.5, n + 2];
  return around((c - b) / m, Math.sqrt(b + c - (c - b) ** 2 / m) / m);
}

/** Exact McNemar paired by problem if `solved` is known, else two proportions (Agresti and Caffo, 2000). */
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

/** Interval of a proportion by Wilson (1927), which stays inside 0..1 and is sound for few problems. */
export function wilsonInterval(correct: number, n: number): Interval {
  const [p, z2] = [correct / n, Z95 ** 2];
  const centre = (p + z2 / (2 * n)) / (1 + z2 / n);
  const half = (Z95 / (1 + z2 / n)) * Math.sqrt((p * (1 - p)) / n + z2 / (4 * n * n));
  return { low: Math.max(0, centre - half), high: Math.min(1, centre + half) };
}
