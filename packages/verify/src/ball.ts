/** Real numbers as a midpoint and a radius over BigInt; every result contains the true value. */
import { bitLength, bitLengthExact, floorDivide, magnitude, type Rational } from './rational';

/** Every number from (m - r) 2^e to (m + r) 2^e. */
export interface Ball {
  m: bigint;
  /** >= 0 */
  r: bigint;
  e: number;
}

/** The operation is undefined at this point, or needs more digits. */
export class Unknown extends Error {}

export const ZERO: Ball = { m: 0n, r: 0n, e: 0 };
export const ONE: Ball = { m: 1n, r: 0n, e: 0 };

export const isZero = (x: Ball): boolean => x.m === 0n && x.r === 0n;
export const hasZero = (x: Ball): boolean => magnitude(x.m) <= x.r;
/** 1 or -1 when every number of the ball has that sign, else 0. */
export const signOf = (x: Ball): number => (hasZero(x) ? 0 : x.m > 0n ? 1 : -1);

/** An upper bound on log2 of the largest |x| in the ball. */
export function sizeOf(x: Ball): number {
  return isZero(x) ? -Infinity : bitLengthExact(magnitude(x.m) + x.r) + x.e;
}

/** An upper bound on log2 of the radius. */
export const radiusOf = (x: Ball): number => (x.r === 0n ? -Infinity : bitLengthExact(x.r) + x.e);

/** Values stay between 2^-this and 2^this in size, except zero. */
const MAX_EXPONENT = 2 ** 40;
const SMALL_RADIUS = 1n << 64n;

function rounded(m: bigint, r: bigint, e: number, bits: number): Ball {
  if (!(Math.abs(e) < MAX_EXPONENT)) throw new Unknown();
  // The radius of a ball wider than its midpoint must not grow without bound either.
  const surplus = Math.max(bitLength(m), r < SMALL_RADIUS ? 0 : bitLength(r)) - bits - 8;
  if (surplus <= 0) return { m, r, e };
  const shift = BigInt(surplus);
  return { m: m >> shift, r: (r >> shift) + 2n, e: e + surplus };
}

export function fromRational({ n, d }: Rational, bits: number): Ball {
  if (d === 1n) return rounded(n, 0n, 0, bits);
  const shift = Math.max(0, bits + bitLength(d) - bitLength(n) + 8);
  return rounded((n << BigInt(shift)) / d, 1n, -shift, bits);
}

export const negate = (x: Ball): Ball => ({ m: -x.m, r: x.r, e: x.e });
export const twice = (x: Ball, power = 1): Ball => ({ m: x.m, r: x.r, e: x.e + power });

export function add(a: Ball, b: Ball, bits: number): Ball {
  if (isZero(a)) return b;
  if (isZero(b)) return a;
  const [high, low] = a.e >= b.e ? [a, b] : [b, a];
  const gap = high.e - low.e;
  if (gap <= 4 * bits + 256) {
    const shift = BigInt(gap);
    return rounded((high.m << shift) + low.m, (high.r << shift) + low.r, low.e, bits);
  }
  // `low` is so small that it fits into one unit in the last place of `high`.
  const wide = { m: high.m << BigInt(bits), r: high.r << BigInt(bits), e: high.e - bits };
  if (sizeOf(low) > wide.e) throw new Unknown();
  return { ...wide, r: wide.r + 1n };
}

export const subtract = (a: Ball, b: Ball, bits: number): Ball => add(a, negate(b), bits);

export function multiply(a: Ball, b: Ball, bits: number): Ball {
  if (isZero(a) || isZero(b)) return ZERO;
  const r = magnitude(a.m) * b.r + magnitude(b.m) * a.r + a.r * b.r;
  return rounded(a.m * b.m, r, a.e + b.e, bits);
}

export function divide(a: Ball, b: Ball, bits: number): Ball {
  if (hasZero(b)) throw new Unknown();
  if (isZero(a)) return ZERO;
  const shift = Math.max(0, bits + bitLength(b.m) - bitLength(a.m) + 8);
  const [top, bottom] = [magnitude(a.m), magnitude(b.m)];
  const error = ((top * b.r + bottom * a.r) << BigInt(shift)) / (bottom * (bottom - b.r));
  return rounded((a.m << BigInt(shift)) / b.m, error + 2n, a.e - b.e - shift, bits);
}

/** floor(sqrt(n)). */
function integerSqrt(n: bigint): bigint {
  if (n < 1n << 52n) return BigInt(Math.floor(Math.sqrt(Number(n))));
  const drop = BigInt(Math.ceil((bitLength(n) - 52) / 2) * 2);
  let root = (BigInt(Math.floor(Math.sqrt(Number(n >> drop)))) + 1n) << (drop / 2n);
  for (;;) {
    const next = (root + n / root) >> 1n;
    if (next >= root) return root;
    root = next;
  }
}

/** The square root of a ball, or of its non-negative part. */
export function sqrt(x: Ball, bits: number): Ball {
  if (isZero(x)) return ZERO;
  const [low, high] = [x.m - x.r, x.m + x.r];
  if (high < 0n) throw new Unknown();
  let shift = Math.max(0, 2 * bits + 16 - bitLength(x.m));
  if ((x.e - shift) % 2 !== 0) shift++;
  const top = integerSqrt(high << BigInt(shift)) + 1n;
  const bottom = low <= 0n ? 0n : x.r === 0n ? top - 1n : integerSqrt(low << BigInt(shift));
  return rounded((top + bottom) >> 1n, ((top - bottom) >> 1n) + 1n, (x.e - shift) / 2, bits);
}

const MAX_FIXED = 1 << 14;

/** The value times 2^places as an integer, and a bound on its error. */
export function fixed(x: Ball, places: number): { value: bigint; error: bigint } {
  const shift = x.e + places;
  if (shift > MAX_FIXED) throw new Unknown();
  if (shift >= 0) return { value: x.m << BigInt(shift), error: x.r << BigInt(shift) };
  return { value: x.m >> BigInt(-shift), error: x.r === 0n ? 1n : (x.r >> BigInt(-shift)) + 2n };
}

/** The floor, or the nearest integer where the value may be exactly that; null: more digits are needed. */
export function wholePart(x: Ball, places: number): bigint | null {
  if (x.e > MAX_FIXED) throw new Unknown();
  if (x.e >= 0 && x.r === 0n) return x.m << BigInt(x.e);
  const { value, error } = fixed(x, places);
  const unit = 1n << BigInt(places);
  const nearest = floorDivide(value + unit / 2n, unit);
  const off = value - nearest * unit;
  if (magnitude(off) <= error && error < unit >> 32n) return nearest;
  const [low, high] = [floorDivide(value - error, unit), floorDivide(value + error, unit)];
  return low === high ? low : null;
}

/** The integer that the ball is exactly, or null. */
export function integerOf(x: Ball): number | null {
  if (x.r !== 0n || x.e > 64 || x.e < -4096) return x.m === 0n && x.r === 0n ? 0 : null;
  if (x.e >= 0) {
    const value = x.m << BigInt(x.e);
    return bitLength(value) <= 53 ? Number(value) : null;
  }
  const shift = BigInt(-x.e);
  const value = x.m >> shift;
  return value << shift === x.m && bitLength(value) <= 53 ? Number(value) : null;
}
