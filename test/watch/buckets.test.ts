import { Buckets, fittingWidth, rounded } from '../../src/watch/buckets';
import { uniform } from '../helpers/synthetic-runs';

/** Values of steps 1 to n, some of them missing. */
function values(n: number, seed: number): Map<number, number> {
  const random = uniform(seed);
  const all = Array.from({ length: n }, (_, i): [number, number] => [i + 1, random() * 100 - 50]);
  return new Map(all.filter(() => random() > 0.1));
}

const filled = (from: Map<number, number>, buckets: Buckets): Buckets => {
  for (const [step, value] of from) buckets.add(step, [['a', value]]);
  return buckets;
};

/** What a bucket must hold, computed from the values themselves. */
function expected(from: Map<number, number>, low: number, width: number) {
  const inside = [...from].filter(([step]) => step >= low && step < low + width).map(([, value]) => value);
  if (inside.length === 0) return null;
  const mean = inside.reduce((a, b) => a + b, 0) / inside.length;
  return { mean, min: Math.min(...inside), max: Math.max(...inside) };
}

test.each([[10], [640], [641], [5_000], [12_345]])(
  '%i steps fit, and every bucket is what its steps say',
  (n) => {
    const from = values(n, n);
    const buckets = filled(from, new Buckets());
    expect(buckets.length).toBeLessThanOrEqual(640);
    expect(Math.log2(buckets.width) % 1).toBe(0);
    for (let i = 0; i < buckets.length; i++) {
      const [found, right] = [buckets.at('a', i), expected(from, i * buckets.width, buckets.width)];
      expect(found === null).toBe(right === null);
      if (found === null || right === null) continue;
      expect(found.mean).toBeCloseTo(right.mean, 9);
      expect([found.min, found.max]).toEqual([right.min, right.max]);
    }
  },
);

test('a page that goes on from what it was sent has the same buckets as the server', () => {
  const from = values(3_000, 5);
  const early = new Map([...from].filter(([step]) => step <= 1_234));
  const late = new Map([...from].filter(([step]) => step > 1_234));
  const page = filled(late, Buckets.from(JSON.parse(JSON.stringify(filled(early, new Buckets()).wire()))));
  const whole = filled(from, new Buckets());
  expect([page.width, page.length]).toEqual([whole.width, whole.length]);
  for (let i = 0; i < whole.length; i++) {
    const [a, b] = [page.at('a', i), whole.at('a', i)];
    // Sent with six digits.
    if (a !== null && b !== null) expect(a.mean).toBeCloseTo(b.mean, 2);
    expect(a === null).toBe(b === null);
  }
});

test('a part begins at its first step, and earlier steps are left out', () => {
  const buckets = filled(values(99, 1), new Buckets(4, 5));
  expect([buckets.start, buckets.length]).toEqual([5, 20]);
  expect(buckets.at('a', 0)).toEqual(expected(values(99, 1), 20, 4));
  buckets.coarsen();
  expect([buckets.width, buckets.start]).toEqual([8, 2]);
  // Its first half lies before the part.
  expect(buckets.at('a', 0)!.min).toBe(expected(values(99, 1), 20, 4)!.min);
});

test.each([
  [0, 639, 1],
  [0, 640, 2],
  [1_000, 1_639, 1],
  [1, 5_000, 8],
])('steps %i to %i are shown in buckets of %i', (from, to, width) => {
  expect(fittingWidth(from, to)).toBe(width);
});

test('numbers are sent with six digits', () => {
  const random = uniform(3);
  const numbers = Array.from({ length: 2_000 }, () => (random() - 0.5) * 10 ** (60 * random() - 30));
  for (const value of numbers) {
    expect(Math.abs(rounded(value) / Number(value.toPrecision(6)) - 1)).toBeLessThan(1e-14);
  }
  expect([rounded(0), rounded(1 / 3), rounded(-1234567.8), rounded(5e-324)]).toEqual([
    0, 0.333333, -1234570, 5e-324,
  ]);
});
