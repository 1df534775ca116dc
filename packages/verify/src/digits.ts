/** Whether two values agree to fifty digits, and what a value rounds to. */
import type { Node } from './ast';
import * as B from './ball';
import { Unknown } from './ball';
import { Arithmetic, type ComplexBall, hasZero, isReal, isZero } from './ball-complex';
import type { Budget } from './budget';
import { preciseValue } from './precise';
import type { Rational } from './rational';

export type Point = ReadonlyMap<string, Rational>;

/** Working precision in bits: the first gives 67 decimal digits, the second covers cancellation. */
const PRECISIONS = [224, 896];
/** Fifty decimal digits, in bits. */
const AGREEMENT = 167;
/** Points at which two expressions with variables must agree, after doubles agreed at more. */
const WANTED_POINTS = 2;

/**
 * Whether `a` and `b` have the same value: false when they are known to differ, true when they agree to fifty
 * digits (relative to their size, or absolutely near zero) at the given points, null when no point gave
 * values. Values that cancel until no digits are left are not the same.
 */
export function sameDigits(a: Node, b: Node, points: Iterable<Point>, budget: Budget): boolean | null {
  let agreed = 0;
  for (const point of points) {
    const here = sameAt(a, b, point, budget);
    if (here === false) return false;
    if (here === true && ++agreed >= WANTED_POINTS) return true;
  }
  return agreed > 0 ? true : null;
}

function sameAt(a: Node, b: Node, point: Point, budget: Budget): boolean | null {
  let undecided = false;
  for (const bits of PRECISIONS) {
    try {
      const math = new Arithmetic(bits);
      const [x, y] = [a, b].map((node) => preciseValue(node, { budget, bits, point })) as [
        ComplexBall,
        ComplexBall,
      ];
      const difference = math.subtract(x, y);
      if (!hasZero(difference)) return false;
      const aboutZero = isZero(x) || isZero(y) || hasZero(x) || hasZero(y);
      const size = aboutZero ? 0 : Math.max(B.sizeOf(x.re), B.sizeOf(x.im), B.sizeOf(y.re), B.sizeOf(y.im));
      if (Math.max(B.radiusOf(difference.re), B.radiusOf(difference.im)) <= size - AGREEMENT) return true;
      undecided = true;
    } catch (error) {
      // A higher precision may decide.
      if (!(error instanceof Unknown)) throw error;
    }
  }
  return undecided ? false : null;
}

/** Whether a / b is the same number at two of the points, to fifty digits; null when undecided. */
export function sameRatio(a: Node, b: Node, points: readonly Point[], budget: Budget): boolean | null {
  let result: boolean | null = null;
  for (const bits of PRECISIONS) {
    try {
      const math = new Arithmetic(bits);
      const [p, q] = points.slice(0, 2).map((point) => ({
        a: preciseValue(a, { budget, bits, point }),
        b: preciseValue(b, { budget, bits, point }),
      }));
      if (p === undefined || q === undefined) return null;
      const [left, right] = [math.multiply(p.a, q.b), math.multiply(q.a, p.b)];
      const difference = math.subtract(left, right);
      if (!hasZero(difference)) return false;
      const size = Math.max(B.sizeOf(left.re), B.sizeOf(left.im));
      if (Math.max(B.radiusOf(difference.re), B.radiusOf(difference.im)) <= size - AGREEMENT) return true;
      result = false;
    } catch (error) {
      if (!(error instanceof Unknown)) throw error;
    }
  }
  return result;
}

/**
 * -1, 0 or 1 as the real value of `a` is below, equal to (to fifty digits) or above that of `b`; null when
 * undecided.
 */
export function order(a: Node, b: Node, budget: Budget): number | null {
  for (const bits of PRECISIONS) {
    try {
      const [x, y] = [a, b].map((node) => preciseValue(node, { budget, bits, point: new Map() }));
      if (!isReal(x!) || !isReal(y!)) return null;
      const difference = B.subtract(x!.re, y!.re, bits);
      if (!B.hasZero(difference)) return B.signOf(difference);
      if (B.radiusOf(difference) <= Math.max(0, B.sizeOf(x!.re)) - AGREEMENT) return 0;
    } catch (error) {
      if (!(error instanceof Unknown)) throw error;
    }
  }
  return null;
}

/**
 * The integer nearest to the real value times 10^places; null when not real, undefined, or too close to a
 * half.
 */
export function roundedValue(node: Node, places: number, budget: Budget): bigint | null {
  for (const bits of PRECISIONS) {
    try {
      const math = new Arithmetic(bits);
      const value = preciseValue(node, { budget, bits, point: new Map() });
      if (!isReal(value)) return null;
      const scale: ComplexBall = { re: { m: 10n ** BigInt(places), r: 0n, e: 0 }, im: B.ZERO };
      const half: ComplexBall = { re: { m: 1n, r: 0n, e: -1 }, im: B.ZERO };
      const whole = B.wholePart(math.add(math.multiply(value, scale), half).re, bits);
      if (whole !== null) return whole;
    } catch (error) {
      if (!(error instanceof Unknown)) throw error;
    }
  }
  return null;
}
