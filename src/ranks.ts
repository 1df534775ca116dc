/**
 * The port to the processes of a data-parallel run. Every rank makes the same loop: it samples the completions of its share
 * of the prompts and runs the passes of its share of the samples; what lies in between (rewards and their states,
 * advantages, metrics) works on the gathered rows and comes out the same on every rank. All ranks must make the same calls
 * in the same order.
 */
import type { Policy } from './engine/types';

export interface Ranks {
  /** From 0. */
  readonly rank: number;
  readonly size: number;
  /** The rows of all ranks, in the order of the ranks. */
  gather<Row>(rows: readonly Row[]): Promise<Row[]>;
  /** The sums over all ranks, element by element. */
  sum(values: readonly number[]): Promise<number[]>;
  /** Replaces the accumulated gradient of every rank's policy by the sum over the ranks. */
  reduceGradients(policy: Policy): Promise<void>;
}

/** A run of one process. */
export const ONE_RANK: Ranks = {
  rank: 0,
  size: 1,
  gather: (rows) => Promise.resolve([...rows]),
  sum: (values) => Promise.resolve([...values]),
  reduceGradients: () => Promise.resolve(),
};

/** This rank's part of `rows`: neighbours, so that gathering the parts restores the order. */
export function shareOf<Row>({ rank, size }: Pick<Ranks, 'rank' | 'size'>, rows: readonly Row[]): Row[] {
  const at = (boundary: number) => Math.floor((boundary * rows.length) / size);
  return rows.slice(at(rank), at(rank + 1));
}
