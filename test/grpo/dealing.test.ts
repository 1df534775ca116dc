import { runTokens } from '../../src/base/packing';
import { shuffledIndices, streamSeed } from '../../src/base/rng';
import { dealtByLength, dealtByTokens } from '../../src/base/dealing';
import { ExpectedLengths } from '../../src/grpo/expected-lengths';
import type { Group } from '../../src/base/types';

const run = (tokens: number) => [{ promptIds: new Int32Array(1), completionIds: new Int32Array(tokens - 1) }];
const sizes = (hands: ReturnType<typeof dealtByTokens>) => hands.map((runs) => runs.map(runTokens));

test('the longest run first, to the rank with the fewest tokens; each keeps the order of the batch', () => {
  const runs = [10, 90, 30, 30, 50].map(run);
  expect(sizes(dealtByTokens(2, runs))).toEqual([
    [10, 90],
    [30, 30, 50],
  ]);
});

test('every run is dealt once, and no rank has more than the longest run above another', () => {
  const runs = Array.from(shuffledIndices(57, streamSeed(1, 'runs')), (n) => run(20 + 7 * n));
  const longest = Math.max(...runs.map(runTokens));
  for (const size of [1, 2, 3, 8]) {
    const hands = dealtByTokens(size, runs);
    expect(hands.flat().sort((a, b) => runs.indexOf(a as never) - runs.indexOf(b as never))).toEqual(runs);
    const tokens = hands.map((hand) => hand.reduce((sum, one) => sum + runTokens(one), 0));
    expect(Math.max(...tokens) - Math.min(...tokens)).toBeLessThanOrEqual(longest);
  }
});

test('ranks without a run get none', () => {
  expect(sizes(dealtByTokens(3, [run(5)]))).toEqual([[5], [], []]);
});

const lengthsOf = (count: number) =>
  Array.from(shuffledIndices(count, streamSeed(1, 'lengths')), (n) => 20 + 90 * n);

test.each([1, 2, 3, 8])('%i ranks sample every completion once', (size) => {
  for (const samples of [1, 4, 7, 16]) {
    const lengths = lengthsOf(13);
    const made = dealtByLength(size, lengths, samples)
      .flat()
      .flatMap(({ place, first, count }) => Array.from({ length: count }, (_, i) => `${place} ${first + i}`));
    const all = lengths.flatMap((_, place) => Array.from({ length: samples }, (__, i) => `${place} ${i}`));
    expect(made.sort()).toEqual(all.sort());
  }
});

test('a rank alone samples whole groups in the order of the batch', () => {
  expect(dealtByLength(1, [5, 90, 20], 4)).toEqual([
    [0, 1, 2].map((place) => ({ place, first: 0, count: 4 })),
  ]);
});

test('ranks begin with what is expected to be longest, and none has much more than another', () => {
  const lengths = lengthsOf(24);
  for (const size of [2, 3, 8]) {
    const hands = dealtByLength(size, lengths, 16);
    const tokens = hands.map((hand) =>
      hand.reduce((sum, { place, count }) => sum + count * lengths[place]!, 0),
    );
    expect(Math.max(...tokens) / Math.min(...tokens)).toBeLessThan(1.05);
    for (const hand of hands) {
      const expected = hand.map(({ place }) => lengths[place]!);
      expect(expected).toEqual([...expected].sort((a, b) => b - a));
      // A prompt is read once by a rank.
      expect(new Set(hand.map(({ place }) => place)).size).toBe(hand.length);
    }
  }
});

test("a problem's completions are expected to be as long as the last time, else as those of its level", () => {
  const group = (id: string, level: string | null, ...tokens: number[]) =>
    ({
      prompt: { problem: { id, level } },
      rollouts: tokens.map((totalTokens) => ({ totalTokens })),
    }) as unknown as Group;
  const expected = new ExpectedLengths();
  const of = (id: string, level: string | null) => expected.of(group(id, level).prompt);
  expect(of('a', null)).toBe(1);
  expected.observe([group('a', '5', 900, 1100), group('b', '5', 500), group('c', '1', 60)]);
  expect([of('a', '5'), of('d', '5'), of('e', '2'), of('f', null)]).toEqual([1000, 750, 520, 520]);
  expected.observe([group('a', '5', 40)]);
  expect([of('a', '5'), of('b', '5'), of('d', '5'), of('c', '1')]).toEqual([40, 500, 40, 60]);
});
