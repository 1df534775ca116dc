/** Draws from a counter-based stream: item i of a dataset does not depend on what was read before. */
import { normalsOf, streamSeed, uniformStream } from '../base/rng';

export class RandomStream {
  /** Uniform in [0, 1). */
  readonly uniform: () => number;
  /** Standard normal. */
  readonly normal: () => number;

  constructor(seed: number, purpose: string, ...counters: number[]) {
    this.uniform = uniformStream(streamSeed(seed, purpose, ...counters));
    this.normal = normalsOf(this.uniform);
  }

  /** Uniform over low..high, inclusive. */
  integer(low: number, high: number): number {
    return low + Math.floor(this.uniform() * (high - low + 1));
  }

  /** Index drawn with the given weights. */
  choice(weights: readonly number[]): number {
    let rest = this.uniform() * weights.reduce((sum, weight) => sum + weight, 0);
    for (const [i, weight] of weights.slice(0, -1).entries()) {
      rest -= weight;
      if (rest < 0) return i;
    }
    return weights.length - 1;
  }

  /** Fisher-Yates, in place. */
  shuffle<T>(items: T[]): T[] {
    for (let i = items.length - 1; i > 0; i--) {
      const j = this.integer(0, i);
      [items[i], items[j]] = [items[j]!, items[i]!];
    }
    return items;
  }
}
