/** Tails and quantiles of the normal and of Student's distribution, and Fisher's exact test. */

const TINY = 1e-300;
const MOST_TERMS = 500;

/** A continued fraction b0 + a1 / (b1 + a2 / (b2 + ...)) by Lentz's method as modified by Thompson and Barnett (1986). */
function continuedFraction(b0: number, term: (i: number) => readonly [a: number, b: number]): number {
  let value = b0 === 0 ? TINY : b0;
  let [c, d] = [value, 0];
  for (let i = 1; i <= MOST_TERMS; i++) {
    const [a, b] = term(i);
    d = 1 / (b + a * d || TINY);
    c = b + a / c || TINY;
    value *= c * d;
    if (Math.abs(c * d - 1) < 1e-15) break;
  }
  return value;
}

const LANCZOS = [
  676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059, 12.507343278686905,
  -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
];

/** ln of the gamma function for x > 0, by Lanczos (1964), g = 7. */
export function logGamma(x: number): number {
  const t = x + 6.5;
  const series = LANCZOS.reduce((sum, factor, i) => sum + factor / (x + i), 0.99999999999980993);
  return 0.5 * Math.log(2 * Math.PI) + (x - 0.5) * Math.log(t) - t + Math.log(series);
}

/** Regularised incomplete beta function (Abramowitz and Stegun, 26.5.8). */
function incompleteBeta(x: number, a: number, b: number): number {
  if (x <= 0 || x >= 1) return x <= 0 ? 0 : 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - incompleteBeta(1 - x, b, a);
  const front = Math.exp(
    logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x) - Math.log(a),
  );
  const fraction = continuedFraction(1, (i) => {
    const m = i >> 1;
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    return [i % 2 === 0 ? even : odd, 1];
  });
  return front / fraction;
}

/** Two-sided p of Student's t. @param freedom degrees of freedom; Infinity: the normal distribution */
export function studentP(t: number, freedom: number): number {
  if (Number.isFinite(freedom)) return incompleteBeta(freedom / (freedom + t * t), freedom / 2, 0.5);
  const x = Math.abs(t);
  // The series near 0, the continued fraction in the tail (Abramowitz and Stegun, 26.2.10 and 26.2.14).
  const density = Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI);
  if (x > 2) return (2 * density) / continuedFraction(x, (i) => [i, x]);
  let [term, sum] = [x, x];
  for (let i = 3; Math.abs(term) > 1e-17 * sum; i += 2) {
    term *= (x * x) / i;
    sum += term;
  }
  return 1 - 2 * density * sum;
}

/** The t whose two-sided p is `p`, 0 < p < 1, by bisection. */
export function studentQuantile(p: number, freedom: number): number {
  let [low, high] = [0, 2];
  while (studentP(high, freedom) > p) high *= 2;
  for (let i = 0; i < 80; i++) {
    const middle = (low + high) / 2;
    if (studentP(middle, freedom) > p) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

/**
 * Fisher's exact test (1922), two-sided: whether two groups have the same share. Tables as likely as the one found
 * or less are counted, as scipy and R do.
 * @param a successes of the first group of `n` @param b successes of the second group of `m`
 */
export function fisherP(a: number, n: number, b: number, m: number): number {
  const logChoose = (all: number, some: number) =>
    logGamma(all + 1) - logGamma(some + 1) - logGamma(all - some + 1);
  const successes = a + b;
  const logP = (x: number) => logChoose(n, x) + logChoose(m, successes - x) - logChoose(n + m, successes);
  const found = logP(a) + 1e-7;
  let p = 0;
  for (let x = Math.max(0, successes - m); x <= Math.min(n, successes); x++) {
    if (logP(x) <= found) p += Math.exp(logP(x));
  }
  return Math.min(1, p);
}
