/** Exact rationals over BigInt. Sizes are estimated before each operation, so none grows without bound. */
import { type Budget, MAX_BITS } from './budget';

/** n / d with d > 0. In lowest terms only while small; comparison cross-multiplies. */
export interface Rational {
  n: bigint;
  d: bigint;
}

const SMALL = 1n << 53n;
const REDUCE_BELOW_BITS = 1_024;

/** Bits of |x|, rounded up to a multiple of 4. */
export function bitLength(x: bigint): number {
  if (x < SMALL && x > -SMALL) return 53;
  return x.toString(16).length * 4;
}

/** Bits of |x|, not rounded up. */
export function bitLengthExact(x: bigint): number {
  const digits = magnitude(x).toString(16);
  return 4 * digits.length - Math.clz32(parseInt(digits[0]!, 16)) + 28;
}

export const magnitude = (x: bigint): bigint => (x < 0n ? -x : x);

/** The floor of a / b for b > 0. */
export function floorDivide(a: bigint, b: bigint): bigint {
  const quotient = a / b;
  return a < 0n && quotient * b !== a ? quotient - 1n : quotient;
}

function gcd(a: bigint, b: bigint): bigint {
  let [x, y] = [magnitude(a), b];
  while (y !== 0n) [x, y] = [y, x % y];
  return x;
}

export function rational(n: bigint, d = 1n): Rational {
  if (d === 1n) return { n, d };
  const [top, bottom] = d < 0n ? [-n, -d] : [n, d];
  if (bitLength(top) + bitLength(bottom) > REDUCE_BELOW_BITS) return { n: top, d: bottom };
  const common = gcd(top, bottom);
  return common > 1n ? { n: top / common, d: bottom / common } : { n: top, d: bottom };
}

export const ZERO: Rational = { n: 0n, d: 1n };
export const ONE: Rational = { n: 1n, d: 1n };

/** The decimal that a double prints as: 0.1 is one tenth. */
export function fromNumber(x: number): Rational {
  const [digits = '0', exponent = '0'] = x.toExponential().split('e');
  const [whole = '0', fraction = ''] = digits.split('.');
  const power = Number(exponent) - fraction.length;
  const scale = 10n ** BigInt(Math.abs(power));
  const n = BigInt(whole + fraction);
  return power >= 0 ? rational(n * scale) : rational(n, scale);
}

export function isInteger(x: Rational): boolean {
  return x.d === 1n || x.n % x.d === 0n;
}

/** `x` as a number when it is a safe integer, else null. */
export function smallInteger(x: Rational): number | null {
  if (!isInteger(x)) return null;
  const value = x.n / x.d;
  return value < SMALL && value > -SMALL ? Number(value) : null;
}

function sizeOf(x: Rational): number {
  return bitLength(x.n) + bitLength(x.d);
}

/** Whether a result of `bits` bits is allowed; charges the budget for it. */
function fits(bits: number, budget: Budget): boolean {
  budget.spend(1 + Math.floor(bits / 512));
  return bits <= 2 * MAX_BITS;
}

export function add(a: Rational, b: Rational, budget: Budget): Rational | null {
  if (!fits(sizeOf(a) + sizeOf(b), budget)) return null;
  if (a.d === b.d) return rational(a.n + b.n, a.d);
  return rational(a.n * b.d + b.n * a.d, a.d * b.d);
}

export function multiply(a: Rational, b: Rational, budget: Budget): Rational | null {
  if (!fits(sizeOf(a) + sizeOf(b), budget)) return null;
  return rational(a.n * b.n, a.d * b.d);
}

export function negate(a: Rational): Rational {
  return { n: -a.n, d: a.d };
}

/** null for 1/0. */
export function invert(a: Rational): Rational | null {
  if (a.n === 0n) return null;
  return a.n < 0n ? { n: -a.d, d: -a.n } : { n: a.d, d: a.n };
}

/** a^k; null when it is undefined or too large, which is checked before the power is computed. */
export function power(a: Rational, k: number, budget: Budget): Rational | null {
  if (k < 0) {
    const inverse = invert(a);
    return inverse === null ? null : power(inverse, -k, budget);
  }
  if (a.d === 1n && (a.n === 1n || a.n === 0n || k === 0)) return k === 0 ? ONE : a;
  if (!fits(Math.max(bitLengthExact(a.n), bitLengthExact(a.d)) * k, budget)) return null;
  return rational(a.n ** BigInt(k), a.d ** BigInt(k));
}

/** k!; null when larger than the bit limit. */
export function factorial(k: number, budget: Budget): Rational | null {
  if (k < 0 || !fits(k * Math.log2(k + 2), budget)) return null;
  budget.spend(k);
  let product = 1n;
  for (let i = 2n; i <= BigInt(k); i++) product *= i;
  return { n: product, d: 1n };
}

/** The k-th root of `a` >= 0 when it is rational, else null. */
export function exactRoot(a: Rational, k: number): Rational | null {
  if (sizeOf(a) > REDUCE_BELOW_BITS) return null;
  const [n, d] = [integerRoot(a.n, k), integerRoot(a.d, k)];
  return n === null || d === null ? null : rational(n, d);
}

function integerRoot(x: bigint, k: number): bigint | null {
  if (x < 0n || k < 1 || k > 64) return null;
  let root = BigInt(Math.round(Math.pow(Number(x), 1 / k)) || 0);
  if (bitLength(x) > 53) {
    // Newton's method from the double's estimate, which is right to 15 digits.
    const degree = BigInt(k);
    for (let i = 0; i < 8 && root > 0n; i++) {
      root = ((degree - 1n) * root + x / root ** (degree - 1n)) / degree;
    }
  }
  for (const candidate of [root, root + 1n, root - 1n]) {
    if (candidate >= 0n && candidate ** BigInt(k) === x) return candidate;
  }
  return null;
}

export function compare(a: Rational, b: Rational): number {
  const [left, right] = [a.n * b.d, b.n * a.d];
  return left < right ? -1 : left > right ? 1 : 0;
}

/** Nearest double, even when numerator and denominator are out of range of doubles. */
export function toNumber(x: Rational): number {
  const bits = Math.max(bitLength(x.n), bitLength(x.d));
  if (bits <= 900) return Number(x.n) / Number(x.d);
  const shift = 64 + Math.max(0, bitLength(x.d) - bitLength(x.n));
  return Number((x.n << BigInt(shift)) / x.d) * Math.pow(2, -shift);
}

/** The integer nearest to x * 10^places, ties to even. */
export function roundedTo(x: Rational, places: number): bigint {
  const scaled = x.n * 10n ** BigInt(places) * 2n;
  // floor((2n + d) / 2d) rounds half up; an exact tie then moves to the even neighbour.
  const shifted = scaled + x.d;
  const divisor = 2n * x.d;
  const quotient = floorDivide(shifted, divisor);
  return shifted % divisor === 0n && quotient % 2n !== 0n ? quotient - 1n : quotient;
}
