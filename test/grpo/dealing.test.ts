import { runTokens } from '../../src/base/packing';
import { shuffledIndices, streamSeed } from '../../src/base/rng';
import { dealtByTokens } from '../../src/grpo/dealing';

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
