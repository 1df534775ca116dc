/** Whether two values agree to fifty digits, and what a value rounds to. */
import type { Node } from './ast';
import * as B from './ball';
import { Unknown } from './ball';
import { Arithmetic, type ComplexBall, hasZero, isReal, real } from './ball-complex';
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

/** What `decide` finds at the first precision at which it is sure; undefined when it never is. */
function decided<T>(decide: (math: Arithmetic) => T | undefined): T | undefined {
  for (const bits of PRECISIONS) {
    try {
      const found = decide(new Arithmetic(bits));
      if (found !== undefined) return found;
    } catch (error) {
      // A higher precision may decide.
      if (!(error instanceof Unknown)) throw error;
    }
  }
  return undefined;
}

/** Whether two values agree to fifty digits, which they do not when they cancel until none are left; null without values. */
function agree(valuesOf: (math: Arithmetic) => [ComplexBall, ComplexBall]): boolean | null {
  let undecided: false | null = null;
  const found = decided((math) => {
    const [x, y] = valuesOf(math);
    const difference = math.subtract(x, y);
    if (!hasZero(difference)) return false;
    const aboutZero = hasZero(x) || hasZero(y);
    const size = aboutZero ? 0 : Math.max(B.sizeOf(x.re), B.sizeOf(x.im), B.sizeOf(y.re), B.sizeOf(y.im));
    if (Math.max(B.radiusOf(difference.re), B.radiusOf(difference.im)) <= size - AGREEMENT) return true;
    undecided = false;
    return undefined;
  });
  return found ?? undecided;
}

/**
 * Whether `a` and `b` have the same value: false when they are known to differ, true when they agree to fifty
 * digits (relative to their size, or absolutely near zero) at the given points, null when no point gave
 * values.
 */
export function sameDigits(a: Node, b: Node, points: Iterable<Point>, budget: Budget): boolean | null {
  let agreed = 0;
  for (const point of points) {
    const here = agree(({ bits }) => [
      preciseValue(a, { budget, bits, point }),
      preciseValue(b, { budget, bits, point }),
    ]);
    if (here === false) return false;
    if (here === true && ++agreed >= WANTED_POINTS) return true;
  }
  return agreed > 0 ? true : null;
}

/** Whether a / b is the same number at two of the points, to fifty digits; null when undecided. */
export function sameRatio(a: Node, b: Node, points: readonly Point[], budget: Budget): boolean | null {
  return agree((math) => {
    const [p, q] = points.slice(0, 2).map((point) => ({
      a: preciseValue(a, { budget, bits: math.bits, point }),
      b: preciseValue(b, { budget, bits: math.bits, point }),
    }));
    return [math.multiply(p!.a, q!.b), math.multiply(q!.a, p!.b)];
  });
}

const NOWHERE: Point = new Map();

/** -1, 0 or 1 as the real value of `a` is below, equal (to fifty digits) or above `b`, else null. */
export function order(a: Node, b: Node, budget: Budget): number | null {
  const found = decided(({ bits }) => {
    const [x, y] = [a, b].map((node) => preciseValue(node, { budget, bits, point: NOWHERE }));
    if (!isReal(x!) || !isReal(y!)) return null;
    const difference = B.subtract(x!.re, y!.re, bits);
    if (!B.hasZero(difference)) return B.signOf(difference);
    return B.radiusOf(difference) <= Math.max(0, B.sizeOf(x!.re)) - AGREEMENT ? 0 : undefined;
  });
  return found ?? null;
}

/** The integer nearest to the real value times 10^places; null if not real, undefined or close to a half. */
export function roundedValue(node: Node, places: number, budget: Budget): bigint | null {
  const scale = real({ m: 10n ** BigInt(places), r: 0n, e: 0 });
  const half = real(B.twice(B.ONE, -1));
  const found = decided((math) => {
    const value = preciseValue(node, { budget, bits: math.bits, point: NOWHERE });
    if (!isReal(value)) return null;
    return B.wholePart(math.add(math.multiply(value, scale), half).re, math.bits) ?? undefined;
  });
  return found ?? null;
}
