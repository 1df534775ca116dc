/**
 * The interface to the processes of a data-parallel run. Every rank runs the same loop: it samples the
 * completions of its share of the prompts and runs the passes over its share of the samples. Everything in
 * between (rewards and their states, advantages, metrics) works on the gathered rows and gives the same
 * result on every rank. All ranks must make the same calls in the same order.
 */
import type { Policy } from './engine/types';

export interface Ranks {
  /** This process's rank, from 0. */
  readonly rank: number;
  readonly size: number;
  /** The rows of all ranks, in rank order. */
  gather<Row>(rows: readonly Row[]): Promise<Row[]>;
  /** Element-wise sums over all ranks. */
  sum(values: readonly number[]): Promise<number[]>;
  /** Replaces the accumulated gradient of each rank's policy by the sum over all ranks. */
  reduceGradients(policy: Policy): Promise<void>;
}

/** A run with a single process. */
export const ONE_RANK: Ranks = {
  rank: 0,
  size: 1,
  gather: (rows) => Promise.resolve([...rows]),
  sum: (values) => Promise.resolve([...values]),
  reduceGradients: () => Promise.resolve(),
};

/** This rank's part of `rows`: a contiguous slice, so that gathering the parts restores the order. */
export function shareOf<Row>({ rank, size }: Pick<Ranks, 'rank' | 'size'>, rows: readonly Row[]): Row[] {
  const at = (boundary: number) => Math.floor((boundary * rows.length) / size);
  return rows.slice(at(rank), at(rank + 1));
}
