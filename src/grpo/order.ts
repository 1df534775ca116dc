/** The order in which problems are trained on: a function of (seed, epoch) alone. */
import { shuffledIndices, streamSeed } from '../base/rng';

/** Endless: position p is in epoch floor(p / size), and every epoch is its own permutation. No state but a cache. */
export class DataOrder {
  private epoch = -1;
  private permutation: Uint32Array = new Uint32Array();

  constructor(
    readonly size: number,
    private readonly seed: number,
  ) {}

  /** The dataset row at `position`, from 0. */
  rowAt(position: number): number {
    const epoch = Math.floor(position / this.size);
    if (epoch !== this.epoch) {
      this.permutation = shuffledIndices(this.size, streamSeed(this.seed, 'data-order', epoch));
      this.epoch = epoch;
    }
    return this.permutation[position % this.size]!;
  }
}
