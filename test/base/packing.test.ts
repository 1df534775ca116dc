import {
  joinPerToken,
  packByTokens,
  packSequences,
  runsByTokens,
  runTokens,
  splitPerToken,
} from '../../src/base/packing';
import { shuffledIndices, streamSeed } from '../../src/base/rng';

test('every sequence is in one bin, and bins keep the budget', () => {
  const lengths = Array.from(shuffledIndices(200, streamSeed(1, 'lengths')), (n) => 1 + (n % 97));
  const bins = packByTokens(lengths, 128);
  expect(bins.flat().sort((a, b) => a - b)).toEqual(lengths.map((_, i) => i));
  for (const bin of bins) expect(bin.reduce((sum, i) => sum + lengths[i]!, 0)).toBeLessThanOrEqual(128);
  // First-fit decreasing needs at most 11/9 of the fewest bins possible, plus one.
  const total = lengths.reduce((a, b) => a + b, 0);
  expect(bins.length).toBeLessThanOrEqual((11 / 9) * Math.ceil(total / 128) + 1);
});

test('a sequence above the budget gets its own bin', () => {
  expect(packByTokens([5, 300, 5], 100)).toEqual([[1], [0, 2]]);
});

test('no sequences, no bins', () => {
  expect(packByTokens([], 100)).toEqual([]);
});

test('sequences are laid end to end, and per-token arrays are split again', () => {
  const sequences = [
    { promptIds: Int32Array.of(1, 2), completionIds: Int32Array.of(3) },
    { promptIds: Int32Array.of(4), completionIds: Int32Array.of(5, 6) },
  ];
  const packed = packSequences(sequences);
  expect([...packed.ids]).toEqual([1, 2, 3, 4, 5, 6]);
  expect([...packed.offsets]).toEqual([0, 3, 6]);
  expect([...packed.promptLengths]).toEqual([2, 1]);
  const parts = splitPerToken(Float64Array.of(0.1, 0.2, 0.3), sequences);
  expect(parts.map((part) => [...part])).toEqual([[0.1], [0.2, 0.3]]);
  expect([...joinPerToken(parts)]).toEqual([0.1, 0.2, 0.3]);
});

/** Of a prompt of `prompt` three times and `length` tokens. */
const sequence = (prompt: number, length: number) => ({
  promptIds: Int32Array.of(prompt, prompt, prompt),
  completionIds: new Int32Array(length),
});

test('a run has one prompt and keeps the budget; a longer sequence is a run of its own', () => {
  const lengths = [
    [1, 10],
    [1, 20],
    [2, 10],
    [2, 70],
    [2, 100],
    [2, 2],
    [3, 90],
    [3, 4],
  ] as const;
  const all = lengths.map(([prompt, length]) => sequence(prompt, length));
  const runs = runsByTokens(all, 100);
  expect(runs.flat()).toEqual(all);
  expect(runs.map(runTokens)).toEqual([36, 86, 103, 5, 100]);
  expect([...packSequences(all, runs).runs!]).toEqual([0, 2, 4, 5, 6, 8]);
  expect(packSequences(all).runs).toBeUndefined();
});
