/** The estimate of the remaining time, on recorded runs and on made-up ones. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { remainingMs, type TimedStep } from '../../src/cli/view/remaining';

interface Recorded {
  name: string;
  ms: number[];
  tokens: number[];
}

const runs = JSON.parse(
  readFileSync(join(__dirname, '..', 'fixtures', 'cli', 'step-times.json'), 'utf8'),
) as Recorded[];
const sum = (values: readonly number[]) => values.reduce((a, b) => a + b, 0);

/** The estimate after `n` steps, that of the plain mean, and what it really took. */
function estimates({ ms, tokens }: Recorded, n: number) {
  const steps = ms.slice(0, n).map((one, i) => ({ ms: one, tokens: tokens[i]! }));
  const left = ms.length - n;
  return {
    ours: remainingMs(steps, left)!,
    plain: (sum(ms.slice(0, n)) / n) * left,
    recent: (sum(ms.slice(Math.max(0, n - 20), n)) / Math.min(n, 20)) * left,
    real: sum(ms.slice(n)),
  };
}

test('five runs of 200 steps are recorded', () => {
  expect(runs.map(({ ms }) => ms.length)).toEqual([200, 200, 200, 200, 200]);
});

test.each(runs)('$name: after a quarter it is closer than the plain mean', (run) => {
  const { ours, plain, real } = estimates(run, 50);
  expect(Math.abs(ours - real)).toBeLessThan(Math.abs(plain - real));
});

test.each(runs)('$name: it never leaves the range of what recent steps suggest', (run) => {
  for (let n = 1; n < 200; n++) {
    const { ours, recent } = estimates(run, n);
    const median = run.ms.slice(Math.max(0, n - 20), n).sort((a, b) => a - b)[Math.min(n - 1, 19) >> 1]!;
    // A fifth of their mean, which is at least half of their median.
    expect(ours).toBeGreaterThanOrEqual(0.1 * median * (200 - n));
    expect(ours).toBeLessThanOrEqual(1.5 * recent + 1e-6);
  }
});

const steady = (n: number, ms: (i: number) => number, tokens: (i: number) => number | null): TimedStep[] =>
  Array.from({ length: n }, (_, i) => ({ ms: ms(i), tokens: tokens(i) }));

test('without a trend it is the mean times the steps that are left', () => {
  expect(
    remainingMs(
      steady(
        40,
        () => 100,
        () => 500,
      ),
      60,
    ),
  ).toBeCloseTo(6000, 6);
  expect(
    remainingMs(
      steady(
        3,
        () => 100,
        () => 500,
      ),
      10,
    ),
  ).toBeCloseTo(1000, 6);
  expect(remainingMs([], 10)).toBeNull();
  expect(
    remainingMs(
      steady(
        40,
        () => 100,
        () => 500,
      ),
      0,
    ),
  ).toBe(0);
});

test('shorter thinking makes later steps cheaper, but only if time follows length', () => {
  const tokens = (i: number) => 2000 * 0.99 ** i;
  const following = remainingMs(
    steady(100, (i) => tokens(i) / 10, tokens),
    200,
  )!;
  const recentMs = tokens(90) / 10;
  expect(following).toBeLessThan(0.8 * recentMs * 200);
  expect(following).toBeGreaterThan(0.2 * recentMs * 200);
  expect(
    remainingMs(
      steady(100, () => 100, tokens),
      200,
    ),
  ).toBeCloseTo(20_000, 6);
});

test('a laptop that slept and steps without completions do not spoil it', () => {
  const slept = steady(
    40,
    (i) => (i === 35 ? 28_800_000 : 1000),
    () => 500,
  );
  expect(remainingMs(slept, 100)).toBeLessThan(200_000);
  const refused = steady(
    40,
    () => 1000,
    (i) => (i % 2 === 0 ? null : 500),
  );
  expect(remainingMs(refused, 100)).toBeCloseTo(100_000, 6);
  expect(
    Number.isFinite(
      remainingMs(
        steady(
          40,
          () => 0,
          () => 0,
        ),
        100,
      ),
    ),
  ).toBe(true);
});
