/** How sequences are put together into forward passes of bounded size; the loop and the plan must agree on it. */

/**
 * Indices of `lengths` in bins of at most `budget` tokens: first-fit decreasing, so that few bins are needed and
 * sequences of like length share one. A sequence above the budget has a bin of its own. Ties keep their order.
 */
export function packByTokens(lengths: readonly number[], budget: number): number[][] {
  const order = lengths.map((_, i) => i).sort((a, b) => lengths[b]! - lengths[a]! || a - b);
  const bins: { members: number[]; free: number }[] = [];
  for (const index of order) {
    const length = lengths[index]!;
    let bin = bins.find((candidate) => candidate.free >= length);
    if (bin === undefined) bins.push((bin = { members: [], free: budget }));
    bin.members.push(index);
    bin.free -= length;
  }
  return bins.map((bin) => bin.members);
}
