/** Exponentials, logarithms and angles of balls, from fixed-point series with guard digits. */
import { type Ball, fixed, hasZero, isZero, negate, ONE, sizeOf, sqrt, twice, Unknown, ZERO, add, divide, subtract } from './ball'; // prettier-ignore
import { bitLength, floorDivide, magnitude } from './rational';

/** Guard bits of a series. */
const GUARD = 48;
/** A generous bound on the rounding error of a series, in units of its last place. */
const LOST = 1n << 24n;
/** Larger arguments have no digits left that mean anything. */
const MAX_SIZE = 4_096;

const constants = new Map<string, bigint>();

function constant(name: string, places: number, compute: (places: number) => bigint): bigint {
  const held = Math.ceil(places / 256) * 256;
  const key = `${name}${held}`;
  let value = constants.get(key);
  if (value === undefined) {
    value = compute(held + GUARD) >> BigInt(GUARD);
    constants.set(key, value);
  }
  return value >> BigInt(held - places);
}

/** atan(1/k), or artanh(1/k) with `hyperbolic`. */
function inverseTangent(k: bigint, places: number, hyperbolic: boolean): bigint {
  let power = (1n << BigInt(places)) / k;
  let sum = power;
  for (let n = 3n; power !== 0n; n += 2n) {
    power /= hyperbolic ? k * k : -k * k;
    sum += power / n;
  }
  return sum;
}

/** Machin's formula. */
const machin = (places: number): bigint =>
  16n * inverseTangent(5n, places, false) - 4n * inverseTangent(239n, places, false);

const ln2 = (places: number): bigint =>
  18n * inverseTangent(26n, places, true) -
  2n * inverseTangent(4801n, places, true) +
  8n * inverseTangent(8749n, places, true);

const piFixed = (places: number): bigint => constant('pi', places, machin);
const ln2Fixed = (places: number): bigint => constant('ln2', places, ln2);

export function pi(bits: number): Ball {
  return { m: piFixed(bits), r: 2n, e: -bits };
}

function placesFor(x: Ball, bits: number): number {
  const size = sizeOf(x);
  if (size > MAX_SIZE) throw new Unknown();
  return bits + GUARD + Math.min(MAX_SIZE, Math.abs(size === -Infinity ? 0 : size));
}

const nearest = (a: bigint, b: bigint): bigint => floorDivide(2n * a + b, 2n * b);

/** e^x for |x| < 1, in fixed point. */
function expFixed(x: bigint, places: number): bigint {
  const shift = BigInt(places);
  const small = x >> 8n;
  let term = 1n << shift;
  let sum = term;
  for (let n = 1n; term !== 0n && term !== -1n; n++) {
    term = ((term * small) >> shift) / n;
    sum += term;
  }
  for (let i = 0; i < 8; i++) sum = (sum * sum) >> shift;
  return sum;
}

export function exp(x: Ball, bits: number): Ball {
  if (isZero(x)) return ONE;
  if (sizeOf(x) > 40) throw new Unknown();
  const places = placesFor(x, bits);
  const { value, error } = fixed(x, places);
  const unit = ln2Fixed(places);
  const k = nearest(value, unit);
  const m = expFixed(value - k * unit, places);
  // An absolute error of x is a relative error of e^x.
  const share = error + magnitude(k) + LOST;
  if (bitLength(share) > places - 2) throw new Unknown();
  return { m, r: ((m * share) >> BigInt(places - 1)) + LOST, e: Number(k) - places };
}

/** The logarithm of a positive number. */
export function log(x: Ball, bits: number): Ball {
  if (x.m <= x.r) throw new Unknown();
  const length = bitLength(x.m);
  const places = bits + GUARD + 16;
  // x = y * 2^power with y near one.
  const power = length + x.e;
  const shift = places - length;
  const y = shift >= 0 ? x.m << BigInt(shift) : x.m >> BigInt(-shift);
  const y53 = Number(y >> BigInt(places - 60)) / 2 ** 60;
  let result = BigInt(Math.round(Math.log(y53) * 2 ** 60)) << BigInt(places - 60);
  // Each round of Halley's method triples the number of digits.
  for (let digits = 50; digits < places; digits *= 3) {
    const power = expNear(result, places);
    result += (2n * (y - power) * (1n << BigInt(places))) / (y + power);
  }
  const error = (x.r << BigInt(places)) / (x.m - x.r) + LOST + BigInt(Math.abs(power));
  return { m: result + BigInt(power) * ln2Fixed(places), r: error, e: -places };
}

/** e^x for small x of any size: the logarithm of a number near one may be slightly below -1. */
function expNear(x: bigint, places: number): bigint {
  const unit = ln2Fixed(places);
  const k = nearest(x, unit);
  const value = expFixed(x - k * unit, places);
  return k >= 0n ? value << k : value >> -k;
}

export function sinCos(x: Ball, bits: number): { sin: Ball; cos: Ball } {
  if (isZero(x)) return { sin: ZERO, cos: ONE };
  const places = placesFor(x, bits);
  const { value, error } = fixed(x, places);
  const halfPi = piFixed(places + 1) >> 2n;
  const quarter = nearest(value, halfPi);
  const inner = value - quarter * halfPi;
  const shift = BigInt(places);
  const square = (inner * inner) >> shift;
  let [term, cosTerm] = [inner, 1n << shift];
  let [sin, cos] = [term, cosTerm];
  for (let n = 1n; magnitude(term) > 1n || magnitude(cosTerm) > 1n; n++) {
    cosTerm = -((cosTerm * square) >> shift) / ((2n * n - 1n) * (2n * n));
    term = -((term * square) >> shift) / (2n * n * (2n * n + 1n));
    cos += cosTerm;
    sin += term;
  }
  const r = error + magnitude(quarter) * 2n + LOST;
  const ball = (m: bigint): Ball => ({ m, r, e: -places });
  const turn = Number(((quarter % 4n) + 4n) % 4n);
  const [s, c] = [ball(sin), ball(cos)];
  return [
    { sin: s, cos: c },
    { sin: c, cos: negate(s) },
    { sin: negate(s), cos: negate(c) },
    { sin: negate(c), cos: s },
  ][turn]!;
}

function atan(x: Ball, bits: number): Ball {
  if (isZero(x)) return ZERO;
  if (sizeOf(x) > 1 && !hasZero(x)) {
    const rest = atan(divide(ONE, x, bits), bits);
    const half = twice(pi(bits + GUARD), -1);
    return subtract(x.m > 0n ? half : negate(half), rest, bits);
  }
  const places = placesFor(x, bits);
  const shift = BigInt(places);
  const { value, error } = fixed(x, places);
  let small = value;
  // atan x = 2 atan(x / (1 + sqrt(1 + x^2)))
  for (let i = 0; i < 4; i++) {
    const one = 1n << shift;
    const inside = { m: one + ((small * small) >> shift), r: 0n, e: -places };
    const root = fixed(sqrt(inside, places), places).value;
    small = (small << shift) / (one + root);
  }
  const square = (small * small) >> shift;
  let [power, sum] = [small, small];
  for (let n = 3n; magnitude(power) > 1n; n += 2n) {
    power = -((power * square) >> shift);
    sum += power / n;
  }
  return { m: sum << 4n, r: error + LOST, e: -places };
}

/** The angle of the point (x, y), in (-pi, pi]. */
export function angle(y: Ball, x: Ball, bits: number): Ball {
  if (isZero(y)) {
    if (hasZero(x)) throw new Unknown();
    return x.m > 0n ? ZERO : pi(bits + GUARD);
  }
  const [sizeX, sizeY] = [sizeOf(x), sizeOf(y)];
  if (sizeY >= sizeX) {
    if (hasZero(y)) throw new Unknown();
    const half = twice(pi(bits + GUARD), -1);
    return subtract(y.m > 0n ? half : negate(half), atan(divide(x, y, bits), bits), bits);
  }
  if (hasZero(x)) throw new Unknown();
  const inner = atan(divide(y, x, bits), bits);
  if (x.m > 0n) return inner;
  if (hasZero(y)) throw new Unknown();
  return y.m > 0n ? add(inner, pi(bits + GUARD), bits) : subtract(inner, pi(bits + GUARD), bits);
}
