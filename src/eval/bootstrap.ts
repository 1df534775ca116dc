/**
 * The percentile bootstrap (Efron, 1979) over problems: all answers to a problem are drawn together, since they are not
 * independent. The same rows and seed give the same interval to the last bit.
 */
import { streamSeed } from '../rng';

/** 95%, from the 2.5th to the 97.5th percentile. */
export interface Interval {
  low: number;
  high: number;
}

export interface BootstrapOptions {
  /** Default 10,000: an end of the interval then moves by about 1% of its width from seed to seed. */
  resamples?: number;
  /** Default 42. */
  seed?: number;
}

const LOW = 0.025;

/** xoshiro128** 1.1 (Blackman and Vigna, 2018): 32 random bits a call. `rng.ts` would take seconds for 10^7 draws. */
function fastBits(seed: number): () => number {
  const [first, second] = [streamSeed(seed, 'bootstrap', 0), streamSeed(seed, 'bootstrap', 1)];
  const low = (word: bigint) => Number(word & 0xffffffffn) | 0;
  let [a, b, c, d] = [low(first), low(first >> 32n), low(second), low(second >> 32n)];
  return () => {
    const product = Math.imul(b, 5);
    const result = Math.imul((product << 7) | (product >>> 25), 9) >>> 0;
    const shifted = b << 9;
    c ^= a;
    d ^= b;
    b ^= c;
    a ^= d;
    c ^= shifted;
    d = (d << 11) | (d >>> 21);
    return result;
  };
}

/**
 * Values of `statistics` on each resample, one array a statistic.
 * @param statistics from how often each of the `size` problems was drawn
 */
export function bootstrap(
  size: number,
  statistics: (counts: Int32Array) => readonly number[],
  { resamples = 10_000, seed = 42 }: BootstrapOptions = {},
): Float64Array[] {
  const bits = fastBits(seed);
  const counts = new Int32Array(size);
  const values: Float64Array[] = [];
  for (let r = 0; r < resamples; r++) {
    counts.fill(0);
    for (let i = 0; i < size; i++) counts[Math.floor((bits() / 2 ** 32) * size)]++;
    for (const [s, value] of statistics(counts).entries()) {
      values[s] ??= new Float64Array(resamples);
      values[s][r] = value;
    }
  }
  return values;
}

/** Of ascending values, between neighbours by a straight line (numpy's default). */
function quantile(sorted: Float64Array, share: number): number {
  const place = share * (sorted.length - 1);
  const below = Math.floor(place);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
}

/** NaN at both ends when a value is NaN. */
export function interval(values: Float64Array): Interval {
  if (values.some(Number.isNaN)) return { low: NaN, high: NaN };
  const sorted = Float64Array.from(values).sort();
  return { low: quantile(sorted, LOW), high: quantile(sorted, 1 - LOW) };
}

/** Two-sided p of "the difference is 0" from its resampled values; never 0, which no finite number of draws shows. */
export function bootstrapP(differences: Float64Array): number {
  if (differences.some(Number.isNaN)) return NaN;
  let [below, above] = [0, 0];
  for (const difference of differences) {
    if (difference <= 0) below++;
    if (difference >= 0) above++;
  }
  return Math.min(1, (2 * (Math.min(below, above) + 1)) / (differences.length + 1));
}
