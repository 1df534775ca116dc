/** Whether two scalar expressions have the same value for all values of their variables. */
import { freeSymbols, integer, type Node, some } from './ast';
import { plainDigits } from './bases';
import { Budget, BudgetExceeded } from './budget';
import * as C from './complex';
import type { Complex } from './complex';
import { exactValue } from './exact';
import { roundedValue, sameDigits } from './digits';
import { sameForm } from './normal-form';
import type { ResolvedOptions } from './options';
import { hash, type NumericContext, numericValue } from './numeric';
import { compare, isInteger, fromNumber, magnitude, multiply, negate, ONE, type Rational, roundedTo, toNumber, ZERO, add, invert } from './rational'; // prettier-ignore

type Compared =
  'floatRounding' | 'numericPrecision' | 'strict' | 'allowSetRelationComp' | 'tolerance' | 'countRepeats';

/** What a comparison depends on. */
export type CompareContext = Pick<ResolvedOptions, Compared> & { budget: Budget };

const WANTED_POINTS = 5;
const MAX_POINTS = 16;

export function equalScalars(a: Node, b: Node, context: CompareContext): boolean {
  return sameScalars(a, b, context) || (context.tolerance > 0 && areClose(a, b, context));
}

/** Within the tolerance of the data set. These are measured values, so doubles are enough. */
function areClose(a: Node, b: Node, context: CompareContext): boolean {
  const [x, y] = [exactValue(a, context), exactValue(b, context)];
  if (x !== null && y !== null) {
    const distance = add(x, negate(y), context.budget);
    const size = distance && { n: magnitude(distance.n), d: distance.d };
    return size !== null && compare(size, fromNumber(context.tolerance)) <= 0;
  }
  if ([a, b].some((node) => freeSymbols(node).size > 0)) return false;
  const [p, q] = [a, b].map((node) => numericValue(node, { budget: context.budget }));
  return C.modulus(C.subtract(p!, q!)) <= context.tolerance;
}

function sameScalars(a: Node, b: Node, context: CompareContext): boolean {
  const inBases = equalInBases(a, b);
  if (inBases !== null) return inBases;
  if (farApart(a, b, context)) return false;
  const [x, y] = [exactValue(a, context), exactValue(b, context)];
  const isExact = x !== null && y !== null;
  if (!isExact && (infinite(a) || infinite(b))) return infinite(a) === infinite(b);
  const same = isExact ? compare(x, y) === 0 : sameDifference(a, b, context);
  return same || roundedEqual(a, b, context);
}

/** Values at the first sample point, or null where they decide nothing; lists compare items with many. */
const values = new WeakMap<Node, Complex | null>();

function firstValue(node: Node, context: CompareContext): Complex | null {
  // Charge the same whether the value is cached or not: a verdict must not depend on earlier ones.
  context.budget.spend(FIRST_VALUE_STEPS);
  const known = values.get(node);
  if (known !== undefined) return known;
  const value = computedFirstValue(node);
  values.set(node, value);
  return value;
}

const FIRST_VALUE_STEPS = 10;

function computedFirstValue(node: Node): Complex | null {
  if (some(node, ({ kind }) => kind === 'base')) return null;
  const at: NumericContext = {
    budget: new Budget(100 * FIRST_VALUE_STEPS),
    point: samplePoint(freeSymbols(node), 0),
  };
  try {
    const value = numericValue(node, at);
    return C.isFinite(value) && at.leftReals !== true && at.lossy !== true ? value : null;
  } catch (error) {
    if (error instanceof BudgetExceeded) return null;
    throw error;
  }
}

/** Whether their values at one point are so different that no rounding can make them equal. */
function farApart(a: Node, b: Node, context: CompareContext): boolean {
  if (context.floatRounding < 4 || context.numericPrecision < 10) return false;
  const [x, y] = [firstValue(a, context), firstValue(b, context)];
  if (x === null || y === null) return false;
  const distance = C.modulus(C.subtract(x, y));
  return distance > 1e-3 && distance > 1e-6 * (C.modulus(x) + C.modulus(y));
}

/** 1 or -1 for an infinity, else 0. */
export function infinite(node: Node): number {
  if (node.kind === 'const') return node.name === 'inf' ? 1 : 0;
  return node.kind === 'neg' ? -infinite(node.value) : 0;
}

/**
 * A number in a base equals the same digits in the same base or without a base, unless the base is in words:
 * `26 \text{ in base } 8` is not 26. null when neither side is such a number alone, or one has a point.
 */
function equalInBases(a: Node, b: Node): boolean | null {
  if (a.kind === 'neg' || b.kind === 'neg') {
    const [x, y] = [withoutMinus(a), withoutMinus(b)];
    return x === null || y === null ? null : equalInBases(x, y);
  }
  if (a.kind !== 'base' && b.kind !== 'base') return null;
  if (a.kind !== b.kind && [a, b].some((node) => node.kind === 'base' && node.inWords === true)) return false;
  const [x, y] = [baseDigits(a), baseDigits(b)];
  if (x?.digits.includes('.') === true || y?.digits.includes('.') === true) return null;
  if (x === null || y === null)
    return [a, b].every((node) => some(node, ({ kind }) => kind === 'base')) ? null : false;
  return x.digits === y.digits && (x.base === null || y.base === null || x.base === y.base);
}

function withoutMinus(node: Node): Node | null {
  if (node.kind === 'neg') return node.value;
  return node.kind === 'num' && node.value.n < 0n ? { ...node, value: negate(node.value) } : null;
}

function baseDigits(node: Node): { digits: string; base: number | null } | null {
  if (node.kind === 'base') return { digits: plainDigits(node.digits), base: node.base };
  if (node.kind !== 'num') return null;
  const digits = isInteger(node.value) && !node.decimal ? `${node.value.n / node.value.d}` : '.';
  return { digits, base: null };
}

/** Whether the rounding rule applies: a decimal, possibly signed. A percentage is exact. */
function isDecimal(node: Node): boolean {
  if (node.kind === 'neg' || node.kind === 'degree') return isDecimal(node.value);
  return node.kind === 'num' && node.decimal;
}

/** Compares both at `floatRounding` places when one is a decimal; an integer must match exactly. */
function roundedEqual(a: Node, b: Node, context: CompareContext): boolean {
  if (!isDecimal(a) && !isDecimal(b)) return false;
  const places = Math.max(0, Math.min(30, context.floatRounding));
  const [x, y] = [exactValue(a, context), exactValue(b, context)];
  if (x !== null && y !== null) {
    if ((isInteger(x) && !isDecimal(a)) || (isInteger(y) && !isDecimal(b))) return false;
    return roundedTo(x, places) === roundedTo(y, places);
  }
  const exact = x ?? y;
  const other = x === null ? a : b;
  if (exact === null || freeSymbols(other).size > 0) return false;
  const rounded = roundedValue(other, places, context.budget);
  if (rounded !== null) return rounded === roundedTo(exact, places);
  const value = numericValue(other, { budget: context.budget });
  if (!C.isFinite(value) || Math.abs(value.im) > 1e-12 * Math.abs(value.re)) return false;
  const unit = Math.pow(10, -places);
  // Doubles have no digits that small, and nothing else decided.
  if (Math.abs(toNumber(exact)) > unit * 2 ** 50) return false;
  return BigInt(Math.round(value.re / unit)) === roundedTo(exact, places);
}

/** coefficient * body, body null for 1. */
interface Term {
  coefficient: Rational;
  body: Node[];
}

/** a - b as a sum of terms. Rational ones are added exactly, so that large parts cancel without loss. */
function differenceTerms(a: Node, b: Node, context: CompareContext): { constant: Rational; terms: Term[] } {
  let constant = ZERO;
  const terms: Term[] = [];
  const visit = (node: Node, sign: Rational): void => {
    if (node.kind === 'add') return node.terms.forEach((term) => visit(term, sign));
    if (node.kind === 'neg') return visit(node.value, negate(sign));
    const term = splitCoefficient(node, context);
    const coefficient = multiply(term.coefficient, sign, context.budget);
    const sum =
      term.body.length === 0 && coefficient !== null ? add(constant, coefficient, context.budget) : null;
    if (sum !== null) constant = sum;
    else if (coefficient === null) terms.push({ coefficient: sign, body: [node] });
    else terms.push({ coefficient, body: term.body });
  };
  visit(a, ONE);
  visit(b, negate(ONE));
  return { constant, terms };
}

function splitCoefficient(node: Node, context: CompareContext): Term {
  const exact = exactValue(node, context);
  if (exact !== null) return { coefficient: exact, body: [] };
  const whole: Term = { coefficient: ONE, body: [node] };
  if (node.kind === 'neg') {
    const inner = splitCoefficient(node.value, context);
    return { coefficient: negate(inner.coefficient), body: inner.body };
  }
  if (node.kind === 'mul') {
    let coefficient = ONE;
    const body: Node[] = [];
    for (const factor of node.factors) {
      const inner = splitCoefficient(factor, context);
      const product = multiply(coefficient, inner.coefficient, context.budget);
      if (product === null) return whole;
      coefficient = product;
      body.push(...inner.body);
    }
    return { coefficient, body };
  }
  if (node.kind === 'div') {
    const [top, bottom] = [splitCoefficient(node.top, context), splitCoefficient(node.bottom, context)];
    const inverse = invert(bottom.coefficient);
    const coefficient = inverse && multiply(top.coefficient, inverse, context.budget);
    if (coefficient === null) return whole;
    const reciprocals = bottom.body.map((factor): Node => ({ kind: 'div', top: integer(1), bottom: factor }));
    return { coefficient, body: [...top.body, ...reciprocals] };
  }
  return whole;
}

/** How far apart the points lie. Step functions are flat in between, so a floor needs larger numbers. */
export function spreadOf(...nodes: Node[]): number {
  const steps = (node: Node): boolean => node.kind === 'fn' && ['floor', 'ceil', 'mod'].includes(node.name);
  return nodes.some((node) => some(node, steps)) ? 97 : 3.7;
}

/** Sample point number `k`: real values of both signs, away from 0, the same on every machine. */
export function samplePoint(names: Iterable<string>, k: number, spread = 3.7): Map<string, Complex> {
  const point = new Map<string, Complex>();
  for (const name of names) {
    const value = 0.3 + spread * (hash(`${name}#${k}`, []) - 0.5);
    // Points are in turn positive, where most formulas are defined, of mixed signs, and negative.
    const negative = k % 3 === 2 || (k % 3 === 1 && hash(`sign${name}#${k}`, []) < 1);
    point.set(name, C.real(negative ? -value : value));
  }
  return point;
}

/** From this `numericPrecision` on (the default), doubles only decide clear differences. */
const EXACT_FROM = 15;

/** Whether a - b is zero: by its normal form, else at every point. Throws BudgetExceeded if undecidable. */
function sameDifference(a: Node, b: Node, context: CompareContext): boolean {
  const exactly = context.numericPrecision >= EXACT_FROM;
  const form = exactly ? sameForm(a, b, context) : null;
  if (form !== null) return form;
  const names = new Set([...freeSymbols(a), ...freeSymbols(b)]);
  const spread = spreadOf(a, b);
  const { real, other, overflow } = doubleVerdicts(a, b, names, spread, context);
  const used = real.length > 0 ? real : other;
  if (used.some(({ same }) => same === false)) return false;
  if (!exactly) return used.length > 0;
  const seen = used.length > 0 ? used : [{ k: 0, same: null }];
  const whole = [a, b].some(needsWholeNumbers);
  const points = seen.map(({ k }) => precisePoint(names, k, spread, whole));
  const digits = sameDigits(a, b, points, context.budget);
  if (digits === false) return false;
  if (used.length === 0 && overflow && bothHuge(a, b, context)) throw new BudgetExceeded();
  // Where more digits cannot be had (a sum of thousands of terms, the gamma function), doubles decide.
  return digits ?? used.some(({ same }) => same === true);
}

interface AtPoint {
  /** Number of the sample point. */
  k: number;
  /** null when doubles cannot decide. */
  same: boolean | null;
}

/** Verdicts of doubles at up to five points. `other` are those where a root or logarithm left the reals. */
function doubleVerdicts(
  a: Node,
  b: Node,
  names: ReadonlySet<string>,
  spread: number,
  context: CompareContext,
): { real: AtPoint[]; other: AtPoint[]; overflow: boolean } {
  const { constant, terms } = differenceTerms(a, b, context);
  const factor = commonScale(constant, terms);
  const exactly = context.numericPrecision >= EXACT_FROM;
  const tolerance = Math.pow(10, 4 - Math.max(5, Math.min(15, context.numericPrecision)));
  const [real, other]: AtPoint[][] = [[], []];
  let overflow = false;
  for (let k = 0; k < MAX_POINTS && real!.length < WANTED_POINTS; k++) {
    context.budget.spend(10);
    const at: NumericContext = { budget: context.budget, point: samplePoint(names, k, spread) };
    let sum = C.real(scaled(constant, factor, context.budget));
    let size = C.modulus(sum);
    for (const { coefficient, body } of terms) {
      const value = body
        .map((node) => numericValue(node, at))
        .reduce(C.multiply, C.real(scaled(coefficient, factor, context.budget)));
      sum = C.add(sum, value);
      size += C.modulus(value);
    }
    if (!Number.isFinite(size)) {
      overflow ||= size === Infinity;
      if (names.size === 0) break;
      continue;
    }
    const same = exactly && at.lossy === true ? null : C.modulus(sum) <= tolerance * size;
    (at.leftReals === true ? other! : real!).push({ k, same });
    if (names.size === 0 || (same === false && at.leftReals !== true)) break;
  }
  return { real: real!, other: other!, overflow };
}

/** Factorials and binomials can be computed to many digits at integers only. */
function needsWholeNumbers(node: Node): boolean {
  const isCount = (inner: Node): boolean =>
    inner.kind === 'fn' && ['factorial', 'binom'].includes(inner.name);
  return some(node, (inner) => isCount(inner) && freeSymbols(inner).size > 0);
}

/** Point `k` of `samplePoint` as exact numbers, or integers with `whole`. */
export function precisePoint(
  names: Iterable<string>,
  k: number,
  spread: number,
  whole = false,
): Map<string, Rational> {
  const point = new Map<string, Rational>();
  for (const [name, { re }] of samplePoint(names, k, spread)) {
    const value = whole
      ? { n: BigInt(7 + 3 * point.size + 5 * k), d: 1n }
      : { n: BigInt(Math.round(re * 2 ** 30)), d: 1n << 30n };
    point.set(name, value);
  }
  return point;
}

function bothHuge(a: Node, b: Node, context: CompareContext): boolean {
  const point = samplePoint(new Set([...freeSymbols(a), ...freeSymbols(b)]), 0);
  const at = { budget: context.budget, point };
  return [a, b].every((node) => C.modulus(numericValue(node, at)) === Infinity);
}

/** The inverse of a coefficient, to scale by, when the coefficients leave the range of doubles; else null. */
function commonScale(constant: Rational, terms: readonly Term[]): Rational | null {
  const coefficients = [constant, ...terms.map((term) => term.coefficient)].filter(({ n }) => n !== 0n);
  const sizes = coefficients.map((value) => Math.abs(toNumber(value)));
  if (sizes.every((size) => size > 1e-200 && size < 1e200)) return null;
  return invert(terms[0]!.coefficient);
}

function scaled(value: Rational, factor: Rational | null, budget: Budget): number {
  if (factor === null || value.n === 0n) return toNumber(value);
  return toNumber(multiply(value, factor, budget) ?? value);
}
