/** The accuracies of a run's batches, in blocks of groups that get coarser with age. Plain JSON. */

/** Number of groups, and the sum of each share over them. */
export type Block = readonly [groups: number, ...sums: number[]];

/** Oldest first. */
export type History = readonly Block[];

/** Groups in the smallest blocks. */
const FINEST = 8;
/** A block is at most this fraction of the groups after it. */
const COARSEST = 1 / 16;

function joined(a: Block, b: Block): Block {
  const sums = a.slice() as [number, ...number[]];
  for (let i = 0; i < sums.length; i++) sums[i]! += b[i]!;
  return sums;
}

/**
 * The history with one more block. Neighbours are merged while the merged block is short compared with its
 * age, so about 100 blocks hold 100,000 groups, and the length of any stretch up to now is known to within a
 * sixteenth.
 */
export function withBlock(history: History, block: Block): History {
  const newestFirst: Block[] = [block];
  let newer = 0;
  for (let i = history.length - 1; i >= 0; i--) {
    const next = history[i]!;
    const last = newestFirst[newestFirst.length - 1]!;
    if (next[0] + last[0] <= Math.max(FINEST, COARSEST * newer)) {
      newestFirst[newestFirst.length - 1] = joined(next, last);
    } else {
      newer += last[0];
      newestFirst.push(next);
    }
  }
  return newestFirst.reverse();
}
