/**
 * Pairs that are equal or not by construction: a reference, rewritten by a rule that keeps or changes its
 * value.
 */
import { uniformStream } from '../../src/base/rng';
import { verifyCompletion } from '../../packages/verify/src';

const random = uniformStream(20_260_101n);
const whole = (low: number, high: number): number => low + Math.floor(random() * (high - low + 1));
const pick = <T>(list: readonly T[]): T => list[whole(0, list.length - 1)]!;
const shuffled = <T>(list: readonly T[]): T[] =>
  list
    .map((item) => ({ item, key: random() }))
    .sort((a, b) => a.key - b.key)
    .map(({ item }) => item);

interface Pair {
  gold: string;
  answer: string;
  equal: boolean;
}

const latex = (n: number, d: number): string =>
  `${n * d < 0 ? '-' : ''}\\frac{${Math.abs(n)}}{${Math.abs(d)}}`;

const MAKERS: Record<string, () => Pair> = {
  'a sum and its value'() {
    const [a, b, off] = [whole(-500, 500), whole(1, 500), whole(0, 1)];
    return { gold: `${a + b + off}`, answer: `${a} + ${b}`, equal: off === 0 };
  },
  'a fraction, scaled'() {
    const [n, d, k, off] = [whole(1, 60), whole(2, 60), whole(2, 9), whole(0, 1)];
    return { gold: latex(n, d), answer: `${n * k + off}/${d * k}`, equal: off === 0 };
  },
  'a mixed number'() {
    const [w, d] = [whole(1, 20), whole(2, 20)];
    const n = whole(1, d - 1);
    const off = whole(0, 1);
    return { gold: latex(w * d + n + off, d), answer: `${w}\\frac{${n}}{${d}}`, equal: off === 0 };
  },
  'a root, absorbed'() {
    const [a, b, off] = [whole(2, 30), pick([2, 3, 5, 6, 7, 10]), whole(0, 1)];
    return { gold: `${a}\\sqrt{${b}}`, answer: `\\sqrt{${a * a * b + off}}`, equal: off === 0 };
  },
  'a large power'() {
    const [k, off] = [whole(80, 900), whole(0, 1)];
    // 2^k against 2^(k-1) * 2, or * 3.
    const base = pick([2, 3, 7]);
    return { gold: `${base}^{${k}}`, answer: `${base}^{${k - 1}} \\cdot ${base + off}`, equal: off === 0 };
  },
  'a polynomial, multiplied out'() {
    const [a, b, off] = [whole(-9, 9), whole(-9, 9), whole(0, 1)];
    const answer = `x^2 + (${a + b}) x + (${a * b + off})`;
    return { gold: `(x + (${a}))(x + (${b}))`, answer, equal: off === 0 };
  },
  'a list in another order'() {
    const items = Array.from({ length: whole(2, 6) }, (_, i) => 10 * i + whole(0, 8));
    const other = shuffled(items);
    const off = whole(0, 1);
    other[0] = other[0]! + off;
    return { gold: items.join(','), answer: `\\{${other.join(', ')}\\}`, equal: off === 0 };
  },
  'a tuple'() {
    const items = Array.from({ length: 3 }, () => whole(-50, 50));
    const off = whole(0, 1);
    const other = items.map((item, i) => (i === 1 ? item + off : item));
    return {
      gold: `(${items.join(',')})`,
      answer: `\\left( ${other.join(' , ')} \\right)`,
      equal: off === 0,
    };
  },
  'an interval'() {
    const [a, b] = [whole(-20, 0), whole(1, 20)];
    const open = pick(['(', '[']);
    const other = pick(['(', '[']);
    return { gold: `${open}${a},${b}]`, answer: `${other}${a}, ${b}]`, equal: open === other };
  },
  'an equation, multiplied'() {
    const [a, b, c, k, off] = [whole(1, 9), whole(1, 9), whole(1, 50), whole(2, 7), whole(0, 1)];
    const answer = `${k * a}x = ${k * c + off} - ${k * b}y`;
    return { gold: `${a}x + ${b}y = ${c}`, answer, equal: off === 0 };
  },
  'an inequality, turned round'() {
    const [a, turned] = [whole(-40, 40), whole(0, 1)];
    return { gold: `x \\le ${a}`, answer: turned === 1 ? `${a} \\ge x` : `${a} \\le x`, equal: turned === 1 };
  },
  'a decimal to six places'() {
    const [n, off] = [whole(1, 999), whole(0, 1)];
    const value = n / 997 + off * 2e-6;
    return { gold: latex(n, 997), answer: value.toFixed(6 + whole(2, 5)), equal: off === 0 };
  },
  'a number in a base'() {
    const [value, base, off, named] = [whole(30, 900), whole(2, 9), whole(0, 1), whole(0, 1)];
    const digits = (value + off).toString(base);
    const answer = named === 1 ? `(${digits})_{${base}}` : digits;
    return { gold: `${value.toString(base)}_{${base}}`, answer, equal: off === 0 };
  },
  thousands() {
    const [value, off] = [whole(1_000, 9_999_999), whole(0, 1)];
    const grouped = (value + off).toLocaleString('en-US').replaceAll(',', pick([',', '{,}', ',\\!', '\\,']));
    return { gold: `${value}`, answer: grouped, equal: off === 0 };
  },
};

test.each(Object.keys(MAKERS))('%s', (name) => {
  for (let n = 0; n < 60; n++) {
    const { gold, answer, equal } = MAKERS[name]!();
    const verdict = verifyCompletion(`\\boxed{${answer}}`, gold);
    expect({ gold, answer, correct: verdict.correct }).toEqual({ gold, answer, correct: equal });
  }
});
