import { asNormal, deviationsBelow, largestFalls, type Noise } from '../../src/monitor/change';
import { withBlock, type History } from '../../src/monitor/history';

const noise: Noise = { dispersions: [1], freedom: 1e6 };

const historyOf = (shares: readonly number[], groups = 1): History =>
  shares.reduce<History>((history, share) => withBlock(history, [groups, groups * share]), []);

describe('deviations of one mean below another', () => {
  test('equal the z of two proportions where that approximation is good', () => {
    // The textbook pooled two-sample z of 600 of 1,000 against 550 of 1,000.
    const pooled = 1150 / 2000;
    const z = (0.6 - 0.55) / Math.sqrt(pooled * (1 - pooled) * (2 / 1000));
    expect(deviationsBelow([1000, 0.6], [1000, 0.55], 1)).toBeCloseTo(z, 2);
    expect(deviationsBelow([1000, 0.55], [1000, 0.6], 1)).toBeCloseTo(-z, 2);
  });

  test('shrink with the root of the dispersion', () => {
    expect(deviationsBelow([500, 0.9], [500, 0.8], 4)).toBeCloseTo(
      deviationsBelow([500, 0.9], [500, 0.8], 1) / 2,
      12,
    );
  });

  test('are finite and uninformative if every answer is correct, or none', () => {
    expect(deviationsBelow([100, 1], [100, 1], 0.5)).toBe(0);
    expect(deviationsBelow([100, 0], [100, 0], 0.5)).toBe(0);
    expect(deviationsBelow([300, 1], [100, 0.9], 0.5)).toBeGreaterThan(3);
    expect(Number.isFinite(deviationsBelow([300, 1], [100, 0], 0.02))).toBe(true);
  });

  test('count less when the noise is poorly known', () => {
    expect(asNormal(4, 1e9)).toBeCloseTo(4, 6);
    // scipy: norm.isf(t.sf(4, 20)) = 3.40; the approximation is 0.05 on the safe side.
    expect(asNormal(4, 20)).toBeGreaterThan(3.35);
    expect(asNormal(4, 20)).toBeLessThan(3.5);
    expect(asNormal(-4, 20)).toBe(-asNormal(4, 20));
  });
});

describe('the history', () => {
  test('keeps every group in few blocks, finer where they are recent', () => {
    let history: History = [];
    for (let i = 0; i < 40_000; i++) history = withBlock(history, [1, i % 2]);
    const total = (index: number) => history.reduce((sum, block) => sum + block[index]!, 0);
    expect(total(0)).toBe(40_000);
    expect(total(1)).toBe(20_000);
    expect(history.length).toBeLessThan(200);
    let newer = 0;
    for (const [groups] of [...history].reverse()) {
      expect(groups).toBeLessThanOrEqual(Math.max(8, newer / 16));
      newer += groups;
    }
  });

  test('does not split batches larger than its finest blocks', () => {
    expect(historyOf([0.5, 0.7, 0.9], 64)).toEqual([
      [64, 32],
      [64, 64 * 0.7],
      [64, 64 * 0.9],
    ]);
  });
});

describe('the largest fall', () => {
  const sought = { shares: [0], drop: 0.05, excess: 4 };
  const fallOf = (history: History, more: Partial<typeof sought> = {}) =>
    largestFalls(history, noise, 80, [{ ...sought, ...more }])[0]!;
  const steps = (...parts: [groups: number, share: number][]) =>
    historyOf(parts.flatMap(([groups, share]) => Array.from({ length: groups }, () => share)));

  test('finds how far and since when', () => {
    const fall = fallOf(steps([600, 0.8], [200, 0.6]));
    expect(fall.before).toBeCloseTo(0.8, 2);
    expect(fall.now).toBeLessThan(0.64);
    expect(fall.groups).toBeGreaterThan(150);
    expect(fall.groups).toBeLessThan(260);
  });

  test('is null for a rise, for less than required, and before enough was seen', () => {
    expect(fallOf(steps([600, 0.6], [200, 0.8]))).toBeNull();
    expect(fallOf(steps([6000, 0.8], [2000, 0.76]))).toBeNull();
    expect(fallOf(steps([100, 0.8], [100, 0.2]))).toBeNull();
    expect(fallOf([])).toBeNull();
  });

  test('is measured against what came right before, not against the lower accuracy at the start', () => {
    const fall = fallOf(steps([1000, 0.5], [500, 0.9], [200, 0.65]));
    expect(fall.before).toBeGreaterThan(0.85);
  });

  test('requires more of a short stretch in a long run', () => {
    const of = (before: number) => fallOf(steps([before, 0.8], [100, 0.6]), { excess: 0 });
    const [short, long] = [of(1000), of(20_000)];
    expect(long.deviations).toBeGreaterThan(short.deviations);
    expect(long.excess).toBeLessThan(short.excess);
  });
});
