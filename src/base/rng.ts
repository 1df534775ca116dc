/**
 * Counter-based random streams: a number depends only on its key, never on earlier draws, so a resumed run needs no
 * generator state. The mixer is SplitMix64's finaliser (Steele, Lea and Flood, 2014).
 */

const MASK64 = (1n << 64n) - 1n;
const GOLDEN_GAMMA = 0x9e3779b97f4a7c15n;

/** A bijection of the unsigned 64-bit integers whose output bits look independent of the input's. */
function mix64(value: bigint): bigint {
  let z = (value + GOLDEN_GAMMA) & MASK64;
  z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK64;
  z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & MASK64;
  return z ^ (z >> 31n);
}

/** FNV-1a over the UTF-16 code units of a purpose's name. */
function hashName(name: string): bigint {
  let hash = 0xcbf29ce484222325n;
  for (let i = 0; i < name.length; i++) {
    hash = ((hash ^ BigInt(name.charCodeAt(i))) * 0x100000001b3n) & MASK64;
  }
  return hash;
}

/**
 * The unsigned 64-bit seed of the stream `purpose` at `counters` (non-negative integers, e.g. step and prompt
 * index) in a run with seed `runSeed`. Streams with different purposes or counters are independent.
 */
export function streamSeed(runSeed: number | bigint, purpose: string, ...counters: number[]): bigint {
  let key = mix64(mix64(BigInt(runSeed) & MASK64) ^ hashName(purpose));
  for (const counter of counters) key = mix64(key ^ (BigInt(counter) & MASK64));
  return key;
}

/** A generator of uniform numbers on [0, 1) with 53 random bits, keyed by a stream seed. */
export function uniformStream(seed: bigint): () => number {
  let counter = 0n;
  return () => Number(mix64((seed + counter++ * GOLDEN_GAMMA) & MASK64) >> 11n) * 2 ** -53;
}

/** Standard normal numbers, each from two uniform ones (Box and Muller, 1958). */
export function normalsOf(uniform: () => number): () => number {
  return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
}

/** A random permutation of 0 .. size - 1 that depends only on `seed` (Fisher-Yates). */
export function shuffledIndices(size: number, seed: bigint): Uint32Array {
  const indices = Uint32Array.from({ length: size }, (_, i) => i);
  const next = uniformStream(seed);
  for (let i = size - 1; i > 0; i--) {
    const j = Math.floor(next() * (i + 1));
    const swapped = indices[i]!;
    indices[i] = indices[j]!;
    indices[j] = swapped;
  }
  return indices;
}
