/** Exact values of expressions all of whose parts are rational. */
import type { Node } from './ast';
import type { Budget } from './budget';
import {
  add, compare, exactRoot, factorial, floorDivide, invert, isInteger, magnitude, multiply, negate, ONE, power, type Rational,
  rational, smallInteger, ZERO,
} from './rational'; // prettier-ignore

export interface ExactContext {
  budget: Budget;
  /** Values of the index variables of sums and products. */
  bound?: ReadonlyMap<string, Rational>;
}

/** Longer sums are computed in doubles. */
const MAX_TERMS = 1_000;

/** null when irrational, undefined or too large to write out. Throws BudgetExceeded. */
export function exactValue(node: Node, context: ExactContext): Rational | null {
  context.budget.spend();
  const value = (inner: Node): Rational | null => exactValue(inner, context);
  switch (node.kind) {
    case 'num':
      return node.value;
    case 'sym':
      return context.bound?.get(node.name) ?? null;
    case 'neg': {
      const inner = value(node.value);
      return inner && negate(inner);
    }
    case 'add':
      return fold(node.terms, ZERO, add, context);
    case 'mul':
      return fold(node.factors, ONE, multiply, context);
    case 'div': {
      const [top, bottom] = [value(node.top), value(node.bottom)];
      const inverse = bottom && invert(bottom);
      return top && inverse && multiply(top, inverse, context.budget);
    }
    case 'pow':
      return exactPower(value(node.base), value(node.exponent), context.budget);
    case 'percent': {
      const inner = value(node.value);
      return inner && multiply(inner, { n: 1n, d: 100n }, context.budget);
    }
    case 'degree':
      return value(node.value);
    case 'base':
      return basedValue(node.digits, node.base);
    case 'fn':
      return exactFunction(node.name, node.args, context);
    case 'bigop':
      return exactSeries(node, context);
    default:
      return null;
  }
}

function fold(
  nodes: readonly Node[],
  start: Rational,
  combine: (a: Rational, b: Rational, budget: Budget) => Rational | null,
  context: ExactContext,
): Rational | null {
  let result = start;
  for (const node of nodes) {
    const value = exactValue(node, context);
    const next = value && combine(result, value, context.budget);
    if (next === null) return null;
    result = next;
  }
  return result;
}

function exactPower(base: Rational | null, exponent: Rational | null, budget: Budget): Rational | null {
  if (base === null || exponent === null) return null;
  const whole = smallInteger(exponent);
  if (whole !== null) return base.n === 0n && whole <= 0 ? null : power(base, whole, budget);
  if (base.n < 0n || exponent.d > 64n || exponent.d < 1n) return null;
  const root = exactRoot(base, Number(exponent.d));
  const times = smallInteger({ n: exponent.n, d: 1n });
  return root === null || times === null ? null : power(root, times, budget);
}

/** The value of digits in a base, also after the point; null if a digit is too large for the base. */
function basedValue(digits: string, base: number): Rational | null {
  const [whole, fraction = ''] = digits.split('.');
  let value = 0n;
  for (const sign of `${whole}${fraction}`) {
    const digit = parseInt(sign, 36);
    if (!(digit < base)) return null;
    value = value * BigInt(base) + BigInt(digit);
  }
  return rational(value, BigInt(base) ** BigInt(fraction.length));
}

function exactFunction(name: string, args: readonly Node[], context: ExactContext): Rational | null {
  const values: Rational[] = [];
  for (const arg of args) {
    const value = exactValue(arg, context);
    if (value === null) return null;
    values.push(value);
  }
  const [x, y] = values as [Rational, Rational];
  switch (name) {
    case 'root': {
      const degree = smallInteger(y);
      if (degree === null || degree < 1) return null;
      if (x.n >= 0n) return exactRoot(x, degree);
      const root = degree % 2 === 1 ? exactRoot(negate(x), degree) : null;
      return root && negate(root);
    }
    case 'factorial': {
      const k = smallInteger(x);
      return k === null ? null : factorial(k, context.budget);
    }
    case 'binom':
      return binomial(smallInteger(x), smallInteger(y), context.budget);
    case 'abs':
      return x.n < 0n ? negate(x) : x;
    case 'floor':
      return { n: floorDivide(x.n, x.d), d: 1n };
    case 'ceil':
      return { n: -floorDivide(-x.n, x.d), d: 1n };
    case 'max':
      return values.reduce((a, b) => (compare(a, b) >= 0 ? a : b));
    case 'min':
      return values.reduce((a, b) => (compare(a, b) <= 0 ? a : b));
    case 'gcd':
    case 'lcm':
      return values.every(isInteger) ? values.reduce((a, b) => divisors(name, a, b, context.budget)) : null;
    case 'mod': {
      if (y.n === 0n) return null;
      const quotient = rational(x.n * y.d, x.d * y.n);
      const whole = multiply(y, { n: -floorDivide(quotient.n, quotient.d), d: 1n }, context.budget);
      return whole && add(x, whole, context.budget);
    }
    default:
      return null;
  }
}

function binomial(n: number | null, k: number | null, budget: Budget): Rational | null {
  if (n === null || k === null || k < 0 || n < 0) return null;
  const [top, below, rest] = [n, k, Math.max(n - k, 0)].map((value) => factorial(value, budget));
  if (k > n) return ZERO;
  return top && below && rest ? { n: top.n / (below.n * rest.n), d: 1n } : null;
}

function divisors(name: 'gcd' | 'lcm', a: Rational, b: Rational, budget: Budget): Rational {
  let [x, y] = [a.n / a.d, b.n / b.d];
  const product = x * y;
  while (y !== 0n) {
    budget.spend();
    [x, y] = [y, x % y];
  }
  const gcd = magnitude(x);
  if (name === 'gcd') return { n: gcd, d: 1n };
  return { n: gcd === 0n ? 0n : magnitude(product) / gcd, d: 1n };
}

function exactSeries(node: Extract<Node, { kind: 'bigop' }>, context: ExactContext): Rational | null {
  const [from, to] = [exactValue(node.from, context), exactValue(node.to, context)];
  const [start, end] = [from && smallInteger(from), to && smallInteger(to)];
  if (start === null || end === null || end - start > MAX_TERMS) return null;
  let result: Rational = node.op === 'sum' ? ZERO : ONE;
  for (let k = start; k <= end; k++) {
    const bound = new Map(context.bound).set(node.variable, { n: BigInt(k), d: 1n });
    const term = exactValue(node.body, { ...context, bound });
    const next = term && (node.op === 'sum' ? add : multiply)(result, term, context.budget);
    if (next === null) return null;
    result = next;
  }
  return result;
}
