/** Evaluates trees in complex doubles, with values for the free variables. */
import type { Node } from './ast';
import type { Budget } from './budget';
import * as C from './complex';
import type { Complex } from './complex';
import { elementary, TRIGONOMETRIC } from './elementary';
import { exactValue } from './exact';
import { wordSet } from './lexicon';
import { toNumber } from './rational';

export interface NumericContext {
  budget: Budget;
  /** Values of the variables. */
  point?: ReadonlyMap<string, Complex>;
  /** Set when a root, logarithm or similar function of a real number was not real. */
  leftReals?: boolean;
  /** Set when digits were lost: large terms that cancelled, a step function, the sine of a large number. */
  lossy?: boolean;
  inTrigonometry?: boolean;
}

const UNDEFINED: Complex = { re: NaN, im: NaN };

/** NaN where undefined. Throws BudgetExceeded. */
export function numericValue(node: Node, context: NumericContext): Complex {
  context.budget.spend(2);
  const value = (inner: Node): Complex => numericValue(inner, context);
  switch (node.kind) {
    case 'num':
      return C.real(toNumber(node.value));
    case 'const':
      return constant(node.name);
    case 'sym':
      return context.point?.get(node.name) ?? UNDEFINED;
    case 'text':
      return C.real(hash(node.value, []));
    case 'neg':
      return C.negate(value(node.value));
    case 'add':
      return total(node.terms.map(value), context);
    case 'mul':
      return node.factors.map(value).reduce(C.multiply);
    case 'div': {
      const bottom = value(node.bottom);
      return C.modulus(bottom) === 0 ? UNDEFINED : C.divide(value(node.top), bottom);
    }
    case 'pow':
      return raised(value(node.base), value(node.exponent), context);
    case 'percent':
      return C.scale(value(node.value), 0.01);
    case 'degree':
      return C.scale(value(node.value), context.inTrigonometry === true ? Math.PI / 180 : 1);
    case 'base': {
      const exact = exactValue(node, context);
      return exact === null ? UNDEFINED : C.real(toNumber(exact));
    }
    case 'fn':
      return applied(node.name, node.args, context);
    case 'apply':
      return C.real(hash(node.name, node.args.map(value)));
    case 'bigop':
      return series(node, context);
    default:
      return UNDEFINED;
  }
}

const LOST_BY_CANCELLING = 1e-5;

function total(terms: readonly Complex[], context: NumericContext): Complex {
  const sum = terms.reduce(C.add);
  const largest = Math.max(...terms.map(C.modulus));
  if (C.modulus(sum) < LOST_BY_CANCELLING * largest) context.lossy = true;
  return sum;
}

function constant(name: 'pi' | 'e' | 'i' | 'inf'): Complex {
  if (name === 'i') return { re: 0, im: 1 };
  return C.real(name === 'pi' ? Math.PI : name === 'e' ? Math.E : Infinity);
}

/** A number in [0.5, 1.5) from a name and values to nine digits: the value of an unknown function. */
export function hash(name: string, values: readonly Complex[]): number {
  const key = [name, ...values.map(({ re, im }) => `${digits(re)},${digits(im)}`)].join('|');
  let state = 0x811c9dc5;
  for (let i = 0; i < key.length; i++) state = Math.imul(state ^ key.charCodeAt(i), 0x01000193) >>> 0;
  state = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) >>> 0;
  state = Math.imul(state ^ (state >>> 12), 0x297a2d39) >>> 0;
  return 0.5 + ((state ^ (state >>> 15)) >>> 0) / 2 ** 32;
}

const digits = (x: number): string => (Math.abs(x) < 1e-9 ? '0' : x.toPrecision(9));

/** Sets `leftReals` for a non-real result of real inputs. */
function flagged(result: Complex, inputs: readonly Complex[], context: NumericContext): Complex {
  if (result.im !== 0 && inputs.every(({ im }) => im === 0)) context.leftReals = true;
  return result;
}

function raised(base: Complex, exponent: Complex, context: NumericContext): Complex {
  if (base.re === 0 && base.im === 0 && exponent.re <= 0) return UNDEFINED;
  if (C.modulus(exponent) > LARGE) context.lossy = true;
  return flagged(C.pow(base, exponent), [base, exponent], context);
}

/** Above this size a double's rounding error matters. */
const LARGE = 1e5;
const STEPS = new Set(['floor', 'ceil', 'mod']);

function applied(name: string, args: readonly Node[], context: NumericContext): Complex {
  const inner: NumericContext = { ...context, leftReals: false, inTrigonometry: TRIGONOMETRIC.has(name) };
  const values = args.map((arg) => numericValue(arg, inner));
  context.leftReals ||= inner.leftReals;
  context.lossy ||= inner.lossy || losesDigits(name, values);
  if (values.length === 1 && name in UNARY) {
    const result = flagged(UNARY[name]!(values[0]!), values, context);
    // Near a zero or a pole the value depends on the argument's last digits.
    const size = C.modulus(result);
    if (CURVED.has(name) && (size < 1e-5 || size > LARGE)) context.lossy = true;
    return result;
  }
  return flagged(several(name, values), values, context);
}

const CURVED = new Set([...TRIGONOMETRIC, ...wordSet('ln log lg arcsin arccos arsinh arcosh artanh')]);

function losesDigits(name: string, values: readonly Complex[]): boolean {
  if (TRIGONOMETRIC.has(name)) return values.some((value) => C.modulus(value) > LARGE);
  const nearStep = (x: number): boolean => Math.abs(x) > LARGE || Math.abs(x - Math.round(x)) < 1e-9;
  if (name === 'mod') return values.length === 2 && nearStep(values[0]!.re / values[1]!.re);
  if (name === 'gcd' || name === 'lcm') return values.some(({ re }) => Math.abs(re) > LARGE);
  return STEPS.has(name) && values.some(({ re }) => nearStep(re));
}

const onReals =
  (f: (x: number) => number) =>
  (z: Complex): Complex =>
    z.im === 0 ? C.real(f(z.re)) : UNDEFINED;
/** Snaps to an integer that is off by rounding only. */
const steady = (f: (x: number) => number) =>
  onReals((x) => (Math.abs(x - Math.round(x)) < 1e-9 * Math.max(1, Math.abs(x)) ? Math.round(x) : f(x)));

const UNARY: Record<string, (z: Complex) => Complex> = {
  ...elementary<Complex>(C),
  // `log` without a base is decimal, as in math_verify.
  log: (z) => C.scale(C.log(z), Math.LOG10E),
  lg: (z) => C.scale(C.log(z), Math.LOG10E),
  abs: (z) => C.real(C.modulus(z)),
  floor: steady(Math.floor),
  ceil: steady(Math.ceil),
  factorial: onReals((x) => (Number.isInteger(x) && x < 0 ? NaN : C.gamma(x + 1))),
};

function several(name: string, values: readonly Complex[]): Complex {
  const [x, y] = values as [Complex, Complex];
  if (name === 'root') return root(x, y);
  if (name === 'log' || name === 'ln') return C.divide(C.log(x), C.log(y));
  if (values.length === 0 || values.some(({ im }) => im !== 0)) return UNDEFINED;
  const reals = values.map(({ re }) => re);
  if (name === 'max') return C.real(Math.max(...reals));
  if (name === 'min') return C.real(Math.min(...reals));
  if (name === 'mod' && reals.length === 2) return C.real(x.re - y.re * Math.floor(x.re / y.re));
  if (name === 'binom' && reals.length === 2) {
    return C.real(C.gamma(x.re + 1) / (C.gamma(y.re + 1) * C.gamma(x.re - y.re + 1)));
  }
  if (name === 'gcd' || name === 'lcm') return C.real(divisors(name, reals));
  return UNDEFINED;
}

/** The value for whole numbers, else a number that only depends on the arguments. */
function divisors(name: 'gcd' | 'lcm', values: readonly number[]): number {
  if (!values.every(Number.isInteger)) return hash(name, [...values].sort((a, b) => a - b).map(C.real));
  const gcd = (a: number, b: number): number => (b === 0 ? Math.abs(a) : gcd(b, a % b));
  if (name === 'gcd') return values.reduce(gcd, 0);
  return values.reduce((a, b) => (a === 0 || b === 0 ? 0 : Math.abs(a / gcd(a, b)) * Math.abs(b)));
}

/** The principal root, but the real one for an odd root of a negative number. */
function root(x: Complex, degree: Complex): Complex {
  if (degree.re === 2 && degree.im === 0) return C.sqrt(x);
  const odd = degree.im === 0 && Math.abs(degree.re % 2) === 1;
  if (odd && x.im === 0 && x.re < 0) return C.real(-Math.pow(-x.re, 1 / degree.re));
  return C.pow(x, C.divide(C.one, degree));
}

/** A sum or product; without integer limits, an unknown function of them and of the term at two points. */
function series(node: Extract<Node, { kind: 'bigop' }>, context: NumericContext): Complex {
  const limits = [numericValue(node.from, context), numericValue(node.to, context)] as const;
  const at = (k: number): Complex => {
    const inner = { ...context, point: new Map(context.point).set(node.variable, C.real(k)) };
    const value = numericValue(node.body, inner);
    context.lossy ||= inner.lossy;
    return value;
  };
  const [from, to] = [limits[0].re, limits[1].re];
  const whole = Number.isInteger(from) && Number.isInteger(to) && limits.every(({ im }) => im === 0);
  if (!whole) return C.real(hash(node.op, [...limits, at(0.37), at(1.83)]));
  context.budget.spend(Math.max(0, to - from));
  let result = C.real(node.op === 'sum' ? 0 : 1);
  for (let k = from; k <= to; k++) result = (node.op === 'sum' ? C.add : C.multiply)(result, at(k));
  return result;
}
