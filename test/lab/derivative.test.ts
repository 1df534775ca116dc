import { derivatives, stepFor } from '../../src/lab/derivative';

const ROOM = { below: 1000, above: 1000 };
const at =
  (...functions: ((x: number) => number)[]) =>
  (place: number) =>
  async (offset: number) =>
    functions.map((f) => f(place + offset));

test('equals the derivative of smooth functions', async () => {
  const sampled = at(Math.sin, Math.exp, (x) => 1 / x);
  const found = await derivatives(sampled(1.25), 2 ** -9, ROOM);
  [Math.cos(1.25), Math.exp(1.25), -1 / 1.25 ** 2].forEach((expected, i) =>
    expect(Math.abs(found[i]! / expected - 1)).toBeLessThan(1e-9),
  );
});

test('is one-sided at the ends of the range, and never looks beyond', async () => {
  const looked: number[] = [];
  const sampled = (place: number) => async (offset: number) => {
    looked.push(place + offset);
    return [Math.exp(place + offset)];
  };
  const [low] = await derivatives(sampled(0), 2 ** -9, { below: 0, above: 1 });
  const [high] = await derivatives(sampled(1), 2 ** -9, { below: 1, above: 0 });
  expect(low).toBeCloseTo(1, 8);
  expect(high).toBeCloseTo(Math.E, 8);
  expect(Math.min(...looked)).toBeGreaterThanOrEqual(0);
  expect(Math.max(...looked)).toBeLessThanOrEqual(1);
});

test('a step has no slope, wherever the length is relative to it', async () => {
  const step = at((x) => (x <= 4096 ? 1 : 0));
  for (const distance of [-0.3, -0.125, -0.01, 0, 0.01, 0.125, 0.3]) {
    expect(await derivatives(step(4096 + distance), 1 / 8, ROOM)).toEqual([0]);
  }
});

test('next to a jump it is the slope of the smooth side', async () => {
  const jump = at((x) => (x <= 10 ? 2 * x : 50 + 100 * x));
  const [slope] = await derivatives(jump(10), 2 ** -6, ROOM);
  expect(slope).toBeCloseTo(2, 9);
});

test('rounding is not a slope', async () => {
  const flat = at((x) => 1.4358407242893751 + 0 * x);
  expect(await derivatives(flat(5000), 1 / 128, ROOM)).toEqual([0]);
});

test('steps are powers of two, small compared with the spread', () => {
  expect(stepFor(1500)).toBe(1 / 8);
  expect(stepFor(1)).toBe(1 / 128);
  expect(stepFor(0.9)).toBe(1 / 256);
  expect(stepFor(0)).toBe(2 ** -20);
});
