/** What carries the messages between the processes of a data-parallel run. */
import type { Policy } from '../engine/types';

/** Calls are made by all ranks in the same order; each ends when the last rank has made it. */
export interface ProcessGroup {
  /** This process's rank, from 0. */
  readonly rank: number;
  readonly size: number;
  /** What every rank brought, in rank order: copies of plain data. Rejects when a rank cannot be reached. */
  allGather<Item>(item: Item): Promise<Item[]>;
  /** Replaces the accumulated gradient of each rank's policy by the sum over all ranks. */
  reduceGradients(policy: Policy): Promise<void>;
}

/** A run with a single process. */
export const ONE_RANK: ProcessGroup = {
  rank: 0,
  size: 1,
  allGather: (item) => Promise.resolve([item]),
  reduceGradients: () => Promise.resolve(),
};
