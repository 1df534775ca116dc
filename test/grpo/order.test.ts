import { DataOrder } from '../../src/grpo/order';
import { shuffledIndices, streamSeed, uniformStream } from '../../src/base/rng';

const rows = (order: DataOrder, from: number, to: number) =>
  Array.from({ length: to - from }, (_, i) => order.rowAt(from + i));

test('every epoch is a permutation of the data, and no two are the same', () => {
  const order = new DataOrder(50, 7);
  const epochs = [0, 1, 2].map((epoch) => rows(order, epoch * 50, (epoch + 1) * 50));
  for (const epoch of epochs)
    expect([...epoch].sort((a, b) => a - b)).toEqual(Array.from({ length: 50 }, (_, i) => i));
  expect(epochs[0]).not.toEqual(epochs[1]);
  expect(epochs[1]).not.toEqual(epochs[2]);
});

test('the row at a position depends on seed and position alone', () => {
  const first = rows(new DataOrder(13, 7), 0, 40);
  const jumping = new DataOrder(13, 7);
  for (const position of [39, 2, 26, 13, 0]) expect(jumping.rowAt(position)).toBe(first[position]);
  expect(rows(new DataOrder(13, 8), 0, 40)).not.toEqual(first);
});

test('streams with different keys differ, and the same key gives the same seed', () => {
  const keys: [number, string, ...number[]][] = [
    [1, 'a'],
    [2, 'a'],
    [1, 'b'],
    [1, 'a', 0],
    [1, 'a', 1],
    [1, 'a', 0, 0],
  ];
  const seeds = keys.map((key) => streamSeed(...key));
  expect(new Set(seeds).size).toBe(keys.length);
  expect(keys.map((key) => streamSeed(...key))).toEqual(seeds);
  for (const seed of seeds) expect(seed >= 0n && seed < 1n << 64n).toBe(true);
});

test('uniform numbers are uniform: chi-square over 64 bins', () => {
  const next = uniformStream(streamSeed(3, 'chi'));
  const bins = new Float64Array(64);
  for (let i = 0; i < 64_000; i++) bins[Math.floor(next() * 64)]! += 1;
  const chiSquare = bins.reduce((sum, count) => sum + (count - 1000) ** 2 / 1000, 0);
  // 63 degrees of freedom: above 110 with a probability of 0.0002.
  expect(chiSquare).toBeLessThan(110);
});

test('a shuffle can put any item at any place', () => {
  const seen = new Set<string>();
  for (let seed = 0; seed < 300; seed++) seen.add(shuffledIndices(4, streamSeed(seed, 's')).join(''));
  expect(seen.size).toBe(24);
});
