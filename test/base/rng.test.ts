import { streamSeed, uniformStream } from '../../src/base/rng';

const MASK = (1n << 64n) - 1n;

/** SplitMix64 as published (Steele, Lea and Flood, 2014, figure 16), in exact integers: its outputs from a seed on. */
function* splitMix64(seed: bigint): Generator<bigint, never> {
  for (let state = seed; ;) {
    state = (state + 0x9e3779b97f4a7c15n) & MASK;
    let z = state;
    z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
    z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & MASK;
    yield z ^ (z >> 31n);
  }
}

const EDGES = [0n, 1n, 0xffffffffn, 0x100000000n, 1n << 63n, MASK - 1n, MASK];
const SEEDS = [...EDGES, ...Array.from({ length: 500 }, (_, i) => streamSeed(i, 'seeds', i))];

test('a stream has the upper 53 bits of SplitMix64', () => {
  for (const seed of SEEDS) {
    const next = uniformStream(seed);
    const exact = splitMix64(seed);
    const pairs = Array.from({ length: 200 }, () => [next(), Number(exact.next().value >> 11n) / 2 ** 53]);
    expect([seed, pairs.map(([drawn]) => drawn)]).toEqual([seed, pairs.map(([, due]) => due)]);
  }
});
