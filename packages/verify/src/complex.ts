/** Complex doubles, with principal branches throughout. */

export interface Complex {
  re: number;
  im: number;
}

export const real = (re: number): Complex => ({ re, im: 0 });
export const one: Complex = real(1);
export const add = (a: Complex, b: Complex): Complex => ({ re: a.re + b.re, im: a.im + b.im });
export const scale = (a: Complex, k: number): Complex => ({ re: a.re * k, im: a.im * k });
export const negate = (a: Complex): Complex => scale(a, -1);
export const subtract = (a: Complex, b: Complex): Complex => add(a, negate(b));
export const modulus = (a: Complex): number => (a.im === 0 ? Math.abs(a.re) : Math.hypot(a.re, a.im));
export const isFinite = (a: Complex): boolean => Number.isFinite(a.re) && Number.isFinite(a.im);

export function multiply(a: Complex, b: Complex): Complex {
  if (a.im === 0 && b.im === 0) return real(a.re * b.re);
  return { re: a.re * b.re - a.im * b.im, im: a.re * b.im + a.im * b.re };
}

export function divide(a: Complex, b: Complex): Complex {
  if (b.im === 0) return { re: a.re / b.re, im: a.im === 0 ? 0 : a.im / b.re };
  const size = b.re * b.re + b.im * b.im;
  return { re: (a.re * b.re + a.im * b.im) / size, im: (a.im * b.re - a.re * b.im) / size };
}

export function log(a: Complex): Complex {
  if (a.im === 0 && a.re >= 0) return real(Math.log(a.re));
  return { re: Math.log(modulus(a)), im: Math.atan2(a.im, a.re) };
}

export function exp(a: Complex): Complex {
  const size = Math.exp(a.re);
  if (a.im === 0) return real(size);
  return { re: size * Math.cos(a.im), im: size * Math.sin(a.im) };
}

export function pow(a: Complex, b: Complex): Complex {
  if (b.im === 0 && Number.isInteger(b.re) && Math.abs(b.re) <= 64 && a.im !== 0)
    return integerPower(a, b.re);
  if (a.im === 0 && b.im === 0 && (a.re >= 0 || Number.isInteger(b.re))) return real(Math.pow(a.re, b.re));
  if (a.re === 0 && a.im === 0) return real(b.re > 0 ? 0 : NaN);
  return exp(multiply(log(a), b));
}

function integerPower(a: Complex, k: number): Complex {
  let result = one;
  for (let i = 0; i < Math.abs(k); i++) result = multiply(result, a);
  return k < 0 ? divide(one, result) : result;
}

export function sqrt(a: Complex): Complex {
  if (a.im === 0) return a.re >= 0 ? real(Math.sqrt(a.re)) : { re: 0, im: Math.sqrt(-a.re) };
  const size = modulus(a);
  const re = Math.sqrt((size + a.re) / 2);
  return { re, im: Math.sign(a.im) * Math.sqrt((size - a.re) / 2) };
}

const I: Complex = { re: 0, im: 1 };

export function sin(a: Complex): Complex {
  if (a.im === 0) return real(Math.sin(a.re));
  return { re: Math.sin(a.re) * Math.cosh(a.im), im: Math.cos(a.re) * Math.sinh(a.im) };
}

export function cos(a: Complex): Complex {
  if (a.im === 0) return real(Math.cos(a.re));
  return { re: Math.cos(a.re) * Math.cosh(a.im), im: -Math.sin(a.re) * Math.sinh(a.im) };
}

/** -i log(i z + sqrt(1 - z^2)) */
export function asin(a: Complex): Complex {
  if (a.im === 0 && Math.abs(a.re) <= 1) return real(Math.asin(a.re));
  const inner = add(multiply(I, a), sqrt(subtract(one, multiply(a, a))));
  return multiply({ re: 0, im: -1 }, log(inner));
}

export const acos = (a: Complex): Complex => subtract(real(Math.PI / 2), asin(a));

/** (i/2) (log(1 - i z) - log(1 + i z)) */
export function atan(a: Complex): Complex {
  if (a.im === 0) return real(Math.atan(a.re));
  const iz = multiply(I, a);
  return multiply({ re: 0, im: 0.5 }, subtract(log(subtract(one, iz)), log(add(one, iz))));
}

// Coefficients of Lanczos' approximation with g = 7, n = 9 (Godfrey).
const LANCZOS = [
  0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
  12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
]; // prettier-ignore

/** The gamma function of a real number; about 14 digits. */
export function gamma(x: number): number {
  if (x < 0.5) return Math.PI / (Math.sin(Math.PI * x) * gamma(1 - x));
  const t = x + 6.5;
  const sum = LANCZOS.slice(1).reduce((total, c, i) => total + c / (x + i), LANCZOS[0]!);
  return Math.sqrt(2 * Math.PI) * Math.pow(t, x - 0.5) * Math.exp(-t) * sum;
}
