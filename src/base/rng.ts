/**
 * Counter-based random streams: a number depends only on its key, never on earlier draws, so a resumed run needs no
 * generator state. The mixer is SplitMix64's finaliser (Steele, Lea and Flood, 2014).
 */

const MASK64 = (1n << 64n) - 1n;

/** The upper 32 bits of the product of two unsigned 32-bit integers. */
function upperProduct(a: number, b: number): number {
  const [a1, a0, b1, b0] = [a >>> 16, a & 0xffff, b >>> 16, b & 0xffff];
  const outer = a1 * b0;
  const middle = a0 * b1 + ((a0 * b0) >>> 16) + (outer % 0x10000);
  return a1 * b1 + Math.floor(outer / 0x10000) + Math.floor(middle / 0x10000);
}

/** An unsigned 64-bit integer in two halves: in a stream BigInt takes ten times as long. */
class Word {
  private high: number;
  private low: number;

  constructor(value: bigint) {
    this.high = Number(value >> 32n) | 0;
    this.low = Number(value & 0xffffffffn) | 0;
  }

  get value(): bigint {
    return (BigInt(this.high >>> 0) << 32n) | BigInt(this.low >>> 0);
  }

  /** The upper 53 bits as a fraction of 1. */
  get fraction(): number {
    return (this.high >>> 0) * 2 ** -32 + (this.low >>> 11) * 2 ** -53;
  }

  set({ high, low }: Word): this {
    this.high = high;
    this.low = low;
    return this;
  }

  plus({ high, low }: Word): this {
    const sum = (this.low >>> 0) + (low >>> 0);
    this.high = (this.high + high + (sum > 0xffffffff ? 1 : 0)) | 0;
    this.low = sum | 0;
    return this;
  }

  times({ high, low }: Word): this {
    const crossed = Math.imul(this.high, low) + Math.imul(this.low, high);
    this.high = (upperProduct(this.low, low) + crossed) | 0;
    this.low = Math.imul(this.low, low);
    return this;
  }

  /** `this ^ (this >> bits)`, of fewer than 32 bits. */
  fold(bits: number): this {
    this.low ^= (this.low >>> bits) | (this.high << (32 - bits));
    this.high ^= this.high >>> bits;
    return this;
  }
}

const GOLDEN_GAMMA = new Word(0x9e3779b97f4a7c15n);
const FACTOR_1 = new Word(0xbf58476d1ce4e5b9n);
const FACTOR_2 = new Word(0x94d049bb133111ebn);

/** A bijection of the unsigned 64-bit integers whose output bits look independent of the input's, in place. */
const mix = (word: Word): Word =>
  word.plus(GOLDEN_GAMMA).fold(30).times(FACTOR_1).fold(27).times(FACTOR_2).fold(31);

const mix64 = (value: bigint): bigint => mix(new Word(value)).value;

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
  const at = new Word(seed);
  const mixed = new Word(0n);
  return () => {
    const { fraction } = mix(mixed.set(at));
    at.plus(GOLDEN_GAMMA);
    return fraction;
  };
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
