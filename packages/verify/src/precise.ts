/** Values to any number of digits, to tell irrational numbers apart where doubles cannot. */
import { integer, type Node } from './ast';
import * as B from './ball';
import { fromRational, Unknown } from './ball';
import { Arithmetic, type ComplexBall, isReal, I, negate, real } from './ball-complex';
import * as F from './ball-functions';
import type { Budget } from './budget';
import { elementary, TRIGONOMETRIC } from './elementary';
import { exactValue } from './exact';
import type { Rational } from './rational';

export interface PreciseContext {
  budget: Budget;
  bits: number;
  point: ReadonlyMap<string, Rational>;
}

const MAX_FACTORIAL = 2_000;
const MAX_SUM = 2_000;
/** Budget steps per operation at the lowest precision. */
const STEPS = 6;

/** Throws Unknown where undefined or where more digits are needed, and BudgetExceeded. */
export function preciseValue(node: Node, context: PreciseContext): ComplexBall {
  return new Evaluator(context).value(node, false);
}

class Evaluator {
  private readonly math: Arithmetic;
  private readonly bits: number;
  private readonly functions: ReturnType<typeof elementary<ComplexBall>>;
  private readonly bound = new Map<string, ComplexBall>();

  constructor(private readonly context: PreciseContext) {
    this.bits = context.bits;
    this.math = new Arithmetic(context.bits);
    this.functions = elementary<ComplexBall>(this.math);
  }

  value(node: Node, inTrigonometry: boolean): ComplexBall {
    const { math, context, bits } = this;
    context.budget.spend(STEPS);
    const of = (inner: Node): ComplexBall => this.value(inner, inTrigonometry);
    switch (node.kind) {
      case 'num':
        return real(fromRational(node.value, bits));
      case 'const':
        return this.constant(node.name);
      case 'sym':
        return this.variable(node.name);
      case 'text':
        return this.unknownFunction(node.value, []);
      case 'neg':
        return negate(of(node.value));
      case 'add':
        return node.terms.map(of).reduce((a, b) => math.add(a, b));
      case 'mul':
        return node.factors.map(of).reduce((a, b) => math.multiply(a, b));
      case 'div':
        return math.divide(of(node.top), of(node.bottom));
      case 'pow':
        return this.power(node.base, node.exponent, inTrigonometry);
      case 'percent':
        return math.divide(of(node.value), this.whole(100n));
      case 'degree':
        return inTrigonometry
          ? math.multiply(of(node.value), math.divide(real(F.pi(bits)), this.whole(180n)))
          : of(node.value);
      case 'base': {
        const exact = exactValue(node, context);
        if (exact === null) throw new Unknown();
        return real(fromRational(exact, bits));
      }
      case 'fn':
        return this.applied(node.name, node.args);
      case 'apply':
        return this.unknownFunction(node.name, node.args.map(of));
      case 'bigop':
        return this.series(node);
      default:
        throw new Unknown();
    }
  }

  private whole(n: bigint): ComplexBall {
    return real({ m: n, r: 0n, e: 0 });
  }

  private variable(name: string): ComplexBall {
    const bound = this.bound.get(name);
    if (bound !== undefined) return bound;
    const at = this.context.point.get(name);
    if (at === undefined) throw new Unknown();
    return real(fromRational(at, this.bits));
  }

  private constant(name: 'pi' | 'e' | 'i' | 'inf'): ComplexBall {
    if (name === 'i') return I;
    if (name === 'pi') return real(F.pi(this.bits));
    if (name === 'e') return real(F.exp(B.ONE, this.bits));
    throw new Unknown();
  }

  private power(base: Node, exponent: Node, inTrigonometry: boolean): ComplexBall {
    // Half-integer powers go through the root, which handles signs better and loses fewer digits.
    const exact = exactValue(exponent, this.context);
    const at = this.value(base, inTrigonometry);
    if (exact?.d === 2n && isReal(at) && B.signOf(at.re) > 0) {
      return this.math.power(this.math.sqrt(at), this.whole(exact.n));
    }
    return this.math.power(
      at,
      exact === null ? this.value(exponent, inTrigonometry) : real(fromRational(exact, this.bits)),
    );
  }

  private applied(name: string, args: readonly Node[]): ComplexBall {
    const { math } = this;
    this.context.budget.spend(4 * STEPS);
    const angles = TRIGONOMETRIC.has(name);
    const values = args.map((arg) => this.value(arg, angles));
    const [x, y] = values as [ComplexBall, ComplexBall];
    if (name === 'root') return math.root(x, y);
    if (name === 'abs') return real(math.modulus(x));
    if (name === 'log' || name === 'lg' || (name === 'ln' && values.length === 2))
      return math.divide(math.log(x), math.log(values.length === 2 ? y : this.whole(10n)));
    const known = this.functions[name];
    if (known === undefined) return this.stepped(name, values);
    // A subscript is no base here: `\exp_2 x`.
    if (values.length > 1) throw new Unknown();
    return known(x);
  }

  /** Step functions, and functions of integers. */
  private stepped(name: string, values: readonly ComplexBall[]): ComplexBall {
    const { math } = this;
    if (values.length === 0 || !values.every(isReal)) throw new Unknown();
    const [x, y] = values as [ComplexBall, ComplexBall];
    switch (name) {
      case 'floor':
        return this.whole(this.floor(x));
      case 'ceil':
        return this.whole(-this.floor(negate(x)));
      case 'mod':
        return math.subtract(x, math.multiply(y, this.whole(this.floor(math.divide(x, y)))));
      case 'max':
        return values.reduce((a, b) => (B.signOf(math.subtract(a, b).re) >= 0 ? a : b));
      case 'min':
        return values.reduce((a, b) => (B.signOf(math.subtract(a, b).re) <= 0 ? a : b));
      case 'factorial':
        return this.whole(this.factorial(x));
      case 'binom':
        return this.binomial(x, y);
      case 'gcd':
      case 'lcm':
        return this.divisors(name, values);
      default:
        throw new Unknown();
    }
  }

  /** The value for whole numbers, else an unknown function without an order of its arguments. */
  private divisors(name: 'gcd' | 'lcm', values: readonly ComplexBall[]): ComplexBall {
    const whole = values.map(({ re }) => B.integerOf(re));
    if (whole.every((value) => value !== null)) {
      const args = whole.map((value) => integer(value));
      const exact = exactValue({ kind: 'fn', name, args }, this.context);
      if (exact !== null) return this.whole(exact.n);
    }
    const order = (a: ComplexBall, b: ComplexBall): number => B.signOf(this.math.subtract(a, b).re);
    return this.unknownFunction(name, [...values].sort(order));
  }

  private floor(x: ComplexBall): bigint {
    const whole = B.wholePart(x.re, this.bits);
    if (whole === null) throw new Unknown();
    return whole;
  }

  private factorial(x: ComplexBall): bigint {
    const k = B.integerOf(x.re);
    if (k === null || k < 0 || k > MAX_FACTORIAL) throw new Unknown();
    this.context.budget.spend(k);
    let product = 1n;
    for (let i = 2n; i <= BigInt(k); i++) product *= i;
    return product;
  }

  /** n (n - 1) ... (n - k + 1) / k! */
  private binomial(n: ComplexBall, below: ComplexBall): ComplexBall {
    const k = B.integerOf(below.re);
    if (k === null || k < 0 || k > MAX_FACTORIAL) throw new Unknown();
    this.context.budget.spend(k);
    let product = this.whole(1n);
    for (let i = 0n; i < BigInt(k); i++)
      product = this.math.multiply(product, this.math.subtract(n, this.whole(i)));
    return this.math.divide(product, this.whole(this.factorial(below)));
  }

  /** A number determined by a name and values to some 25 digits; stands in for an unknown function. */
  private unknownFunction(name: string, values: readonly ComplexBall[]): ComplexBall {
    const key = [name, ...values.flatMap(({ re, im }) => [digits(re), digits(im)])].join('|');
    let state = 0xcbf29ce484222325n;
    for (let i = 0; i < key.length; i++)
      state = BigInt.asUintN(64, (state ^ BigInt(key.charCodeAt(i))) * 0x100000001b3n);
    state = BigInt.asUintN(64, (state ^ (state >> 29n)) * 0xbf58476d1ce4e5b9n);
    return real({ m: (1n << 63n) + (state ^ (state >> 32n)), r: 0n, e: -64 });
  }

  private series(node: Extract<Node, { kind: 'bigop' }>): ComplexBall {
    const { math } = this;
    const limits = [this.value(node.from, false), this.value(node.to, false)] as const;
    const at = (k: ComplexBall): ComplexBall => {
      const outer = this.bound.get(node.variable);
      this.bound.set(node.variable, k);
      const value = this.value(node.body, false);
      if (outer === undefined) this.bound.delete(node.variable);
      else this.bound.set(node.variable, outer);
      return value;
    };
    const [from, to] = limits.map(({ re, im }) => (B.isZero(im) ? B.integerOf(re) : null));
    if (from === null || to === null || from === undefined || to === undefined) {
      const [a, b] = [37n, 183n].map((n) => at(math.divide(this.whole(n), this.whole(100n))));
      return this.unknownFunction(node.op, [...limits, a!, b!]);
    }
    if (to - from > MAX_SUM) throw new Unknown();
    let result = this.whole(node.op === 'sum' ? 0n : 1n);
    for (let k = from; k <= to; k++) {
      const term = at(this.whole(BigInt(k)));
      result = node.op === 'sum' ? math.add(result, term) : math.multiply(result, term);
    }
    return result;
  }
}

/** About 25 digits of an odd multiple of x, so that no likely answer sits on a rounding edge. */
function digits(x: B.Ball): string {
  const places = 110;
  const { value, error } = B.fixed(x, places);
  if (error > 1n << 6n) throw new Unknown();
  return ((value * 739_085_133_215_160_641n) / ((10n ** 18n) << 26n)).toString();
}
