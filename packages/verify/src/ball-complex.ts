/** Complex numbers made of two balls, with principal branches throughout, as in `complex.ts`. */
import * as B from './ball';
import { type Ball, ONE, Unknown, ZERO } from './ball';
import * as F from './ball-functions';

export interface ComplexBall {
  re: Ball;
  im: Ball;
}

export const real = (re: Ball): ComplexBall => ({ re, im: ZERO });
export const isReal = (z: ComplexBall): boolean => B.isZero(z.im);
export const isZero = (z: ComplexBall): boolean => B.isZero(z.re) && B.isZero(z.im);
export const hasZero = (z: ComplexBall): boolean => B.hasZero(z.re) && B.hasZero(z.im);
export const negate = (z: ComplexBall): ComplexBall => ({ re: B.negate(z.re), im: B.negate(z.im) });
export const I: ComplexBall = { re: ZERO, im: ONE };

const MAX_POWER = 1_024;

/** Operations to `bits` binary digits; Unknown where one is undefined or needs more digits. */
export class Arithmetic {
  constructor(readonly bits: number) {}

  readonly one = real(ONE);
  readonly negate = negate;

  add(a: ComplexBall, b: ComplexBall): ComplexBall {
    return { re: B.add(a.re, b.re, this.bits), im: B.add(a.im, b.im, this.bits) };
  }

  subtract(a: ComplexBall, b: ComplexBall): ComplexBall {
    return this.add(a, negate(b));
  }

  multiply(a: ComplexBall, b: ComplexBall): ComplexBall {
    const { bits } = this;
    if (isReal(a) && isReal(b)) return real(B.multiply(a.re, b.re, bits));
    return {
      re: B.subtract(B.multiply(a.re, b.re, bits), B.multiply(a.im, b.im, bits), bits),
      im: B.add(B.multiply(a.re, b.im, bits), B.multiply(a.im, b.re, bits), bits),
    };
  }

  divide(a: ComplexBall, b: ComplexBall): ComplexBall {
    const { bits } = this;
    if (isReal(b)) return { re: B.divide(a.re, b.re, bits), im: B.divide(a.im, b.re, bits) };
    const size = this.square(b);
    const top = this.multiply(a, { re: b.re, im: B.negate(b.im) });
    return { re: B.divide(top.re, size, bits), im: B.divide(top.im, size, bits) };
  }

  /** |z|^2 */
  private square(z: ComplexBall): Ball {
    const { bits } = this;
    return B.add(B.multiply(z.re, z.re, bits), B.multiply(z.im, z.im, bits), bits);
  }

  modulus(z: ComplexBall): Ball {
    if (!isReal(z)) return B.sqrt(this.square(z), this.bits);
    return B.signOf(z.re) < 0 ? B.negate(z.re) : B.hasZero(z.re) ? B.sqrt(this.square(z), this.bits) : z.re;
  }

  sqrt(z: ComplexBall): ComplexBall {
    const { bits } = this;
    if (isReal(z)) {
      const sign = B.signOf(z.re);
      if (sign > 0 || B.isZero(z.re)) return real(B.sqrt(z.re, bits));
      if (sign < 0) return { re: ZERO, im: B.sqrt(B.negate(z.re), bits) };
      throw new Unknown();
    }
    const size = this.modulus(z);
    if (B.signOf(z.re) > 0) {
      const re = B.sqrt(B.twice(B.add(size, z.re, bits), -1), bits);
      return { re, im: B.divide(z.im, B.twice(re), bits) };
    }
    const sign = B.signOf(z.im);
    if (sign === 0) throw new Unknown();
    const root = B.sqrt(B.twice(B.subtract(size, z.re, bits), -1), bits);
    const im = sign > 0 ? root : B.negate(root);
    return { re: B.divide(z.im, B.twice(im), bits), im };
  }

  exp(z: ComplexBall): ComplexBall {
    const size = F.exp(z.re, this.bits);
    if (isReal(z)) return real(size);
    const { sin, cos } = F.sinCos(z.im, this.bits);
    return { re: B.multiply(size, cos, this.bits), im: B.multiply(size, sin, this.bits) };
  }

  log(z: ComplexBall): ComplexBall {
    if (isReal(z) && B.signOf(z.re) !== 0) {
      const re = F.log(z.re.m > 0n ? z.re : B.negate(z.re), this.bits);
      return z.re.m > 0n ? real(re) : { re, im: F.pi(this.bits) };
    }
    const im = F.angle(z.im, z.re, this.bits);
    return { re: B.twice(F.log(this.square(z), this.bits), -1), im };
  }

  power(base: ComplexBall, exponent: ComplexBall): ComplexBall {
    const whole = isReal(exponent) ? B.integerOf(exponent.re) : null;
    if (isZero(base)) {
      if (B.signOf(exponent.re) > 0) return real(ZERO);
      throw new Unknown();
    }
    if (whole !== null && Math.abs(whole) <= MAX_POWER) return this.wholePower(base, whole);
    if (whole !== null && isReal(base) && B.signOf(base.re) < 0) {
      const size = this.power(negate(base), exponent);
      return whole % 2 === 0 ? size : negate(size);
    }
    return this.exp(this.multiply(this.log(base), exponent));
  }

  /** base^k, by squaring. */
  private wholePower(base: ComplexBall, k: number): ComplexBall {
    let [result, square] = [this.one, base];
    for (let left = Math.abs(k); left > 0; left = Math.floor(left / 2)) {
      if (left % 2 === 1) result = this.multiply(result, square);
      if (left > 1) square = this.multiply(square, square);
    }
    return k < 0 ? this.divide(this.one, result) : result;
  }

  /** The principal root, but the real one for an odd root of a negative real number. */
  root(x: ComplexBall, degree: ComplexBall): ComplexBall {
    const k = isReal(degree) ? B.integerOf(degree.re) : null;
    if (k === 2) return this.sqrt(x);
    if (isZero(x)) return x;
    if (k !== null && k % 2 !== 0 && isReal(x) && B.signOf(x.re) < 0)
      return negate(this.root(negate(x), degree));
    return this.power(x, this.divide(this.one, degree));
  }

  private sinCos(z: ComplexBall): { sin: ComplexBall; cos: ComplexBall } {
    if (isReal(z)) {
      const { sin, cos } = F.sinCos(z.re, this.bits);
      return { sin: real(sin), cos: real(cos) };
    }
    const [up, down] = [this.exp(this.multiply(I, z)), this.exp(negate(this.multiply(I, z)))];
    const half = (w: ComplexBall): ComplexBall => ({ re: B.twice(w.re, -1), im: B.twice(w.im, -1) });
    const sin = half(this.subtract(up, down));
    // (u - d) / 2i
    return { sin: { re: sin.im, im: B.negate(sin.re) }, cos: half(this.add(up, down)) };
  }

  sin(z: ComplexBall): ComplexBall {
    return this.sinCos(z).sin;
  }

  cos(z: ComplexBall): ComplexBall {
    return this.sinCos(z).cos;
  }

  atan(z: ComplexBall): ComplexBall {
    if (isReal(z)) return real(F.angle(z.re, ONE, this.bits));
    const iz = this.multiply(I, z);
    const [low, high] = [this.subtract(this.one, iz), this.add(this.one, iz)];
    const { re, im } = this.subtract(this.log(low), this.log(high));
    return { re: B.twice(B.negate(im), -1), im: B.twice(re, -1) };
  }

  asin(z: ComplexBall): ComplexBall {
    const rest = this.subtract(this.one, this.multiply(z, z));
    if (isReal(z) && B.signOf(rest.re) >= 0) {
      // At the ends of the range the root is zero within the error.
      const root = B.hasZero(rest.re) ? ZERO : B.sqrt(rest.re, this.bits);
      if (B.hasZero(rest.re) && B.radiusOf(rest.re) > -this.bits / 2) throw new Unknown();
      const slack = B.hasZero(rest.re) ? B.sqrt({ ...rest.re, m: 0n }, this.bits) : ZERO;
      const value = F.angle(z.re, root, this.bits);
      return real(B.add(value, { m: 0n, r: slack.m + slack.r, e: slack.e }, this.bits));
    }
    const w = this.log(this.add(this.multiply(I, z), this.sqrt(rest)));
    return { re: w.im, im: B.negate(w.re) };
  }

  acos(z: ComplexBall): ComplexBall {
    return this.subtract(real(B.twice(F.pi(this.bits), -1)), this.asin(z));
  }
}
