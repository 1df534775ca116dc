/**
 * The percentile bootstrap (Efron, 1979) over problems: all answers to a problem are resampled together,
 * because they are not independent. The same rows and seed give the same interval to the last bit.
 */
import { streamSeed } from '../base/rng';
import { quantileOfSorted } from '../base/statistics';

/** A 95% interval, from the 2.5th to the 97.5th percentile. */
export interface Interval {
  low: number;
  high: number;
}

export interface BootstrapOptions {
  /** Default 10,000: the ends of the interval then vary by about 1% of its width between seeds. */
  resamples?: number;
  /** Default 42. */
  seed?: number;
}

const LOW = 0.025;

/** xoshiro128** 1.1 (Blackman and Vigna, 2018): `rng.ts` would take minutes for a report of 10^8 draws. */
class Draws {
  private state: [a: number, b: number, c: number, d: number];

  constructor(seed: number, purpose: string) {
    const low = (word: bigint): number => Number(word & 0xffffffffn) | 0;
    const high = (word: bigint): number => Number(word >> 32n) | 0;
    const [first, second] = [streamSeed(seed, purpose, 0), streamSeed(seed, purpose, 1)];
    this.state = [low(first), high(first), low(second), high(second)];
  }

  /** Fills `indices` with independent uniform integers below `size`. */
  fill(indices: Int32Array, size: number): void {
    let [a, b, c, d] = this.state;
    for (let i = 0; i < indices.length; i++) {
      const product = Math.imul(b, 5);
      const bits = Math.imul((product << 7) | (product >>> 25), 9) >>> 0;
      const shifted = b << 9;
      c ^= a;
      d ^= b;
      b ^= c;
      a ^= d;
      c ^= shifted;
      d = (d << 11) | (d >>> 21);
      indices[i] = Math.floor((bits / 2 ** 32) * size);
    }
    this.state = [a, b, c, d];
  }
}

/** Fills arrays with independent uniform integers below `size`; streams of other purposes are independent. */
export function bootstrapDraws(seed: number, purpose: string): (indices: Int32Array, size: number) => void {
  const draws = new Draws(seed, `bootstrap ${purpose}`);
  return (indices, size) => draws.fill(indices, size);
}

/**
 * The values of `statistics` on each resample, one array per statistic.
 * @param columns numbers of the problems, one array per quantity
 * @param statistics computed from how often each problem was drawn and each column's sum over the resample
 */
export function bootstrap(
  columns: readonly Float64Array[],
  statistics: (counts: Int32Array, ...sums: number[]) => readonly number[],
  { resamples = 10_000, seed = 42 }: BootstrapOptions = {},
): Float64Array[] {
  const [width, size] = [columns.length, columns[0]!.length];
  // Each problem's numbers are adjacent, so a draw reads one place in memory.
  const table = Float64Array.from(
    { length: width * size },
    (_, i) => columns[i % width]![Math.floor(i / width)]!,
  );
  const draws = new Draws(seed, 'bootstrap');
  const indices = new Int32Array(size);
  const [sums, counts] = [new Float64Array(width), new Int32Array(size)];
  const values: Float64Array[] = [];
  for (let r = 0; r < resamples; r++) {
    draws.fill(indices, size);
    sums.fill(0);
    counts.fill(0);
    for (const index of indices) {
      counts[index]!++;
      for (let c = 0; c < width; c++) sums[c]! += table[index * width + c]!;
    }
    for (const [s, value] of statistics(counts, ...sums).entries()) {
      values[s] ??= new Float64Array(resamples);
      values[s][r] = value;
    }
  }
  return values;
}

/** NaN at both ends if a value is NaN. */
export function interval(values: Float64Array): Interval {
  if (values.some(Number.isNaN)) return { low: NaN, high: NaN };
  const sorted = Float64Array.from(values).sort();
  return { low: quantileOfSorted(sorted, LOW), high: quantileOfSorted(sorted, 1 - LOW) };
}

/** Two-sided p of "the difference is 0" from resampled values; never 0, which no sample can show. */
export function bootstrapP(differences: Float64Array): number {
  if (differences.some(Number.isNaN)) return NaN;
  let [below, above] = [0, 0];
  for (const difference of differences) {
    if (difference <= 0) below++;
    if (difference >= 0) above++;
  }
  return Math.min(1, (2 * (Math.min(below, above) + 1)) / (differences.length + 1));
}
