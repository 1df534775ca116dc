/**
 * Sums of products of rational numbers, roots of integers, pi, e, i and variables in a unique form: two such
 * sums are equal exactly when their forms are. Roots of different square-free numbers, and their products
 * with powers of pi or of e, are linearly independent over the rationals, so no digits are needed to decide.
 */
import type { Node } from './ast';
import type { Budget } from './budget';
import { exactValue } from './exact';
import {
  add,
  bitLength,
  magnitude,
  multiply,
  negate,
  ONE,
  power,
  type Rational,
  rational,
  smallInteger,
  ZERO,
} from './rational';

/** Powers of primes (`2`, `3`, ...), of `pi`, `e`, `i` and of variables (`$x`). */
type Powers = ReadonlyMap<string, Rational>;

interface Term {
  coefficient: Rational;
  powers: Powers;
}

type Form = ReadonlyMap<string, Term>;

const MINUS_ONE = negate(ONE);
const NO_POWERS: Powers = new Map();

const MAX_TERMS = 64;
const MAX_EXPONENT = 64;
const LARGEST_PRIME = 1_000;

interface Context {
  budget: Budget;
}

/** Whether a and b are equal; null when one of them is not such a sum. Throws BudgetExceeded. */
export function sameForm(a: Node, b: Node, context: Context): boolean | null {
  const [x, y] = [formOf(a, context), formOf(b, context)];
  if (x === null || y === null) return sameProduct(a, b, context);
  const difference = sum(x, scaled(y, MINUS_ONE, context), context);
  if (difference === null) return null;
  if (difference.size === 0) return true;
  // It is not proven that no polynomial in both pi and e vanishes.
  const names = new Set([...difference.values()].flatMap(({ powers }) => [...powers.keys()]));
  return names.has('pi') && names.has('e') ? null : false;
}

function formOf(node: Node, context: Context): Form | null {
  context.budget.spend(2);
  switch (node.kind) {
    case 'const':
      return node.name === 'inf' ? null : single(ONE, new Map([[node.name, ONE]]));
    case 'sym':
      return single(ONE, new Map([[`$${node.name}`, ONE]]));
    case 'neg':
      return scaled(formOf(node.value, context), MINUS_ONE, context);
    case 'percent':
      return scaled(formOf(node.value, context), { n: 1n, d: 100n }, context);
    case 'degree':
      return formOf(node.value, context);
    case 'add': {
      let result: Form | null = new Map();
      for (const term of node.terms) result = sum(result, formOf(term, context), context);
      return result;
    }
    case 'mul': {
      let result: Form | null = single(ONE, NO_POWERS);
      for (const factor of node.factors) result = product(result, formOf(factor, context), context);
      return result;
    }
    case 'div': {
      const [top, bottom] = [formOf(node.top, context), formOf(node.bottom, context)];
      return product(top, raised(bottom, MINUS_ONE, context), context);
    }
    case 'pow': {
      const exponent = exactValue(node.exponent, context);
      return exponent && raised(formOf(node.base, context), rational(exponent.n, exponent.d), context);
    }
    default: {
      if (node.kind === 'fn' && node.name === 'root') return rootOf(node.args, context);
      const value = exactValue(node, context);
      return value && single(value, NO_POWERS);
    }
  }
}

function single(coefficient: Rational, powers: Powers): Form {
  return coefficient.n === 0n ? new Map() : new Map([[keyOf(powers), { coefficient, powers }]]);
}

function keyOf(powers: Powers): string {
  return [...powers]
    .map(([name, { n, d }]) => `${name}^${n}/${d}`)
    .sort()
    .join('*');
}

function sum(a: Form | null, b: Form | null, context: Context): Form | null {
  if (a === null || b === null) return null;
  const result = new Map(a);
  for (const [key, term] of b) {
    const known = result.get(key);
    const coefficient = known ? add(known.coefficient, term.coefficient, context.budget) : term.coefficient;
    if (coefficient === null) return null;
    if (coefficient.n === 0n) result.delete(key);
    else result.set(key, { coefficient, powers: term.powers });
  }
  return result.size > MAX_TERMS ? null : result;
}

function scaled(form: Form | null, factor: Rational, context: Context): Form | null {
  return product(form, single(factor, NO_POWERS), context);
}

function product(a: Form | null, b: Form | null, context: Context): Form | null {
  if (a === null || b === null || a.size * b.size > 4 * MAX_TERMS) return null;
  let result: Form | null = new Map();
  for (const x of a.values()) {
    for (const y of b.values()) {
      context.budget.spend(2);
      const term = timesTerm(x, y, context);
      if (term === null) return null;
      result = sum(result, single(term.coefficient, term.powers), context);
      if (result === null) return null;
    }
  }
  return result;
}

function timesTerm(x: Term, y: Term, context: Context): Term | null {
  const coefficient = multiply(x.coefficient, y.coefficient, context.budget);
  if (coefficient === null) return null;
  if (x.powers.size === 0 || y.powers.size === 0) {
    return { coefficient, powers: x.powers.size === 0 ? y.powers : x.powers };
  }
  const powers = together(x.powers, y.powers, context);
  return powers && reduced(coefficient, powers, context);
}

/** The powers of a product. */
function together(x: Powers, y: Powers, context: Context): Map<string, Rational> | null {
  const powers = new Map(x);
  for (const [name, exponent] of y) {
    const total = add(powers.get(name) ?? ZERO, exponent, context.budget);
    if (total === null) return null;
    powers.set(name, total);
  }
  return powers;
}

/** Integer powers of primes and of i move into the coefficient, so that a product has a unique form. */
function reduced(start: Rational, powers: Map<string, Rational>, context: Context): Term | null {
  let coefficient: Rational | null = start;
  for (const [name, exponent] of [...powers]) {
    const { n, d } = rational(exponent.n, exponent.d);
    if (n === 0n) {
      powers.delete(name);
    } else if (name === 'i') {
      const turn = ((n % 4n) + 4n) % 4n;
      if (turn >= 2n) coefficient = { n: -coefficient.n, d: coefficient.d };
      if (turn % 2n === 0n) powers.delete(name);
      else powers.set(name, ONE);
    } else if (/^\d/.test(name)) {
      const rest: bigint = ((n % d) + d) % d;
      const whole = smallInteger({ n: (n - rest) / d, d: 1n });
      const factor: Rational | null =
        whole === null ? null : power({ n: BigInt(name), d: 1n }, whole, context.budget);
      const next: Rational | null = factor && multiply(coefficient, factor, context.budget);
      if (next === null) return null;
      coefficient = next;
      if (rest === 0n) powers.delete(name);
      else powers.set(name, rational(rest, d));
    } else {
      powers.set(name, { n, d });
    }
  }
  return { coefficient, powers };
}

function raised(form: Form | null, exponent: Rational, context: Context): Form | null {
  if (form === null) return null;
  const k = smallInteger(exponent);
  const [term] = form.values();
  if (form.size === 1 && term !== undefined) return raisedTerm(term, exponent, context);
  if (k === null || k < 1 || k > MAX_EXPONENT || form.size === 0) return null;
  let result: Form | null = form;
  for (let i = 1; i < k && result !== null; i++) result = product(result, form, context);
  return result;
}

function raisedTerm({ coefficient, powers }: Term, exponent: Rational, context: Context): Form | null {
  const k = smallInteger(exponent);
  if (k !== null) {
    const value = coefficient.d === coefficient.n ? ONE : power(coefficient, k, context.budget);
    return value && termForm(value, timesAll(powers, exponent), context);
  }
  // (x^2)^(1/2) is not x, and i has two roots.
  if ([...powers.keys()].some((name) => name === 'i' || name.startsWith('$'))) return null;
  const imaginary = coefficient.n < 0n && exponent.n === 1n && exponent.d === 2n;
  if (coefficient.n < 0n && !imaginary) return null;
  const primes = primePowers({ n: magnitude(coefficient.n), d: coefficient.d });
  const all = primes && together(timesAll(powers, exponent), timesAll(primes, exponent), context);
  if (imaginary) all?.set('i', ONE);
  return all && termForm(ONE, all, context);
}

function termForm(coefficient: Rational, powers: Powers, context: Context): Form | null {
  const term = reduced(coefficient, new Map(powers), context);
  return term && single(term.coefficient, term.powers);
}

function timesAll(powers: Powers, factor: Rational): Map<string, Rational> {
  return new Map([...powers].map(([name, { n, d }]) => [name, rational(n * factor.n, d * factor.d)]));
}

/** The root; for an odd degree, a negative number has its real root. */
function rootOf([inside, degree]: readonly Node[], context: Context): Form | null {
  const k = degree && exactValue(degree, context);
  const whole = k && smallInteger(k);
  if (inside === undefined || whole === null || whole === undefined || whole < 1) return null;
  const form = formOf(inside, context);
  const [term] = form?.values() ?? [];
  const exponent = { n: 1n, d: BigInt(whole) };
  if (form?.size === 1 && term !== undefined && whole % 2 === 1 && term.coefficient.n < 0n) {
    const positive = { ...term, coefficient: { n: -term.coefficient.n, d: term.coefficient.d } };
    return scaled(raisedTerm(positive, exponent, context), MINUS_ONE, context);
  }
  return form?.size === 0 ? form : raised(form, exponent, context);
}

const PRIMES: readonly number[] = Array.from({ length: LARGEST_PRIME }, (_, n) => n).filter((n) => {
  for (let k = 2; k * k <= n; k++) if (n % k === 0) return false;
  return n >= 2;
});

/** The prime factorisation; null when a prime is too large to be found. */
function primePowers({ n, d }: Rational): Map<string, Rational> | null {
  const found = new Map<string, Rational>();
  for (const sign of [1n, -1n]) {
    let rest = sign > 0n ? n : d;
    if (rest <= 0n || bitLength(rest) > 256) return null;
    for (const prime of PRIMES) {
      if (rest === 1n) break;
      const divisor = BigInt(prime);
      let times = 0n;
      for (; rest % divisor === 0n; times++) rest /= divisor;
      if (times > 0n) {
        const known = found.get(String(prime))?.n ?? 0n;
        found.set(String(prime), { n: known + sign * times, d: 1n });
      }
    }
    if (rest >= BigInt(LARGEST_PRIME * LARGEST_PRIME)) return null;
    if (rest > 1n) found.set(String(rest), { n: (found.get(String(rest))?.n ?? 0n) + sign, d: 1n });
  }
  return found;
}

/** Compares products of integer powers too large to write out: 9^500000 is 3^1000000. */
function sameProduct(a: Node, b: Node, context: Context): boolean | null {
  const [x, y] = [productOf(a, context), productOf(b, context)];
  if (x === null || y === null) return null;
  return x.negative === y.negative && keyOf(x.powers) === keyOf(y.powers);
}

interface Product {
  negative: boolean;
  powers: Powers;
}

function productOf(node: Node, context: Context): Product | null {
  context.budget.spend(2);
  switch (node.kind) {
    case 'neg': {
      const inner = productOf(node.value, context);
      return inner && { ...inner, negative: !inner.negative };
    }
    case 'mul': {
      const factors = node.factors.map((factor) => productOf(factor, context));
      return factors.reduce((x, y) => timesProduct(x, y, ONE, context));
    }
    case 'div': {
      const [top, bottom] = [productOf(node.top, context), productOf(node.bottom, context)];
      return timesProduct(top, bottom, MINUS_ONE, context);
    }
    case 'pow': {
      const [base, exponent] = [productOf(node.base, context), exactValue(node.exponent, context)];
      if (base === null || exponent === null) return null;
      const { n, d } = rational(exponent.n, exponent.d);
      if (base.negative && d !== 1n) return null;
      return { negative: base.negative && n % 2n !== 0n, powers: timesAll(base.powers, { n, d }) };
    }
    case 'num': {
      const { n, d } = node.value;
      const powers = primePowers({ n: magnitude(n), d });
      return powers && { negative: n < 0n, powers };
    }
    default:
      return null;
  }
}

/** x times y^k for k = 1 or -1. */
function timesProduct(x: Product | null, y: Product | null, k: Rational, context: Context): Product | null {
  const powers = x && y && together(x.powers, timesAll(y.powers, k), context);
  if (x === null || y === null || powers === null) return null;
  const kept = [...powers].filter(([, { n }]) => n !== 0n);
  return {
    negative: x.negative !== y.negative,
    powers: new Map(kept.map(([name, { n, d }]) => [name, rational(n, d)])),
  };
}
