/** Numerical derivatives with respect to one answer's length. */
import { maximum } from '../base/statistics';

interface Stencil {
  /** In units of h. */
  offsets: readonly number[];
  /**
   * Weights of the values at the offsets. The weighted sum over 12 h is the derivative, with an error of
   * order h^4.
   */
  weights: readonly number[];
}

const CENTRAL: Stencil = { offsets: [-2, -1, 1, 2], weights: [1, -8, 8, -1] };
const FORWARD: Stencil = { offsets: [0, 1, 2, 3, 4], weights: [-25, 48, -36, 16, -3] };
const BACKWARD: Stencil = { offsets: [0, -1, -2, -3, -4], weights: [25, -48, 36, -16, 3] };

/** Several quantities at a length `offset` tokens from the current one. */
export type Sampled = (offset: number) => Promise<readonly number[]>;

/** How far the length may move: down to 0 and up to the longest completion. */
export interface Room {
  below: number;
  above: number;
}

/** A power of two, so that lengths change without rounding, and small compared with the spread. */
export function stepFor(spread: number): number {
  const wanted = Math.min(spread / 128, 1 / 8);
  return wanted > 2 ** -20 ? 2 ** Math.floor(Math.log2(wanted)) : 2 ** -20;
}

/**
 * Sums below this fraction of the largest value are rounding: each term is off by at most half an epsilon
 * relative to itself.
 */
const ROUNDING = 64 * Number.EPSILON;

async function apply(sampled: Sampled, { offsets, weights }: Stencil, h: number): Promise<number[]> {
  const values = await Promise.all(offsets.map((offset) => sampled(offset * h)));
  return values[0]!.map((_, quantity) => {
    const column = values.map((row) => row[quantity]!);
    const total = weights.reduce((sum, weight, i) => sum + weight * column[i]!, 0);
    const largest = maximum(column.map(Math.abs));
    return Math.abs(total) <= ROUNDING * largest ? 0 : total / (12 * h);
  });
}

const disagree = (a: number, b: number): boolean => Math.abs(a - b) > Math.max(Math.abs(a), Math.abs(b)) / 4;

const smaller = (a: number, b: number): number => (Math.abs(a) < Math.abs(b) ? a : b);

/**
 * The derivative of each quantity at offset 0. Next to a jump it is that of the flatter side, since a step
 * has no slope. At the ends of the range it is one-sided.
 */
export async function derivatives(sampled: Sampled, h: number, room: Room): Promise<number[]> {
  if (room.below < 2 * h) return apply(sampled, FORWARD, h);
  if (room.above < 2 * h) return apply(sampled, BACKWARD, h);
  const coarse = await apply(sampled, CENTRAL, h);
  if (coarse.every((slope) => slope === 0)) return coarse;
  const fine = await apply(sampled, CENTRAL, h / 2);
  // Across a jump the difference stays the same while h halves, so the quotient doubles; where the function
  // is smooth the two agree.
  const jumps = fine.map((slope, i) => disagree(slope, coarse[i]!));
  if (!jumps.includes(true)) return fine;
  const [after, before] = [await apply(sampled, FORWARD, h), await apply(sampled, BACKWARD, h)];
  return fine.map((slope, i) => (jumps[i] ? smaller(after[i]!, before[i]!) : slope));
}
