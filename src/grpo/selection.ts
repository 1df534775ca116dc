/**
 * GFPO (arXiv 2508.09726): of each group only the k best completions are learnt from. Means and deviations are over
 * those; the others have advantage 0. TRL knows the size as `num_remains_in_group`.
 */
import type { Advantages } from './advantages';

/** `shortest`: the fewest tokens; `efficiency`: the most reward per token. */
export type GroupFilter = 'shortest' | 'efficiency';

export interface Selection {
  /** Positions of the kept completions in the batch, groups end to end, in order. */
  kept: readonly number[];
  /** Kept completions per group. */
  sizes: readonly number[];
}

export interface Candidate {
  reward: number;
  /** Completion tokens. */
  tokens: number;
}

/** Among equals the earlier sample is kept. */
function bestOf(group: readonly Candidate[], count: number, filter: GroupFilter): number[] {
  const cost = ({ reward, tokens }: Candidate) =>
    filter === 'shortest' ? tokens : -reward / Math.max(1, tokens);
  const order = group.map((_, i) => i).sort((a, b) => cost(group[a]!) - cost(group[b]!) || a - b);
  return order.slice(0, count).sort((a, b) => a - b);
}

/** The `count` best of each group; all of a smaller one. */
export function selectBest(
  groups: readonly (readonly Candidate[])[],
  count: number,
  filter: GroupFilter,
): Selection {
  const kept: number[] = [];
  const sizes: number[] = [];
  let start = 0;
  for (const group of groups) {
    const best = bestOf(group, count, filter);
    kept.push(...best.map((i) => start + i));
    sizes.push(best.length);
    start += group.length;
  }
  return { kept, sizes };
}

/** Everything is kept. */
export function selectAll(groups: readonly (readonly unknown[])[]): Selection {
  const sizes = groups.map((group) => group.length);
  return { kept: Array.from({ length: sizes.reduce((a, b) => a + b, 0) }, (_, i) => i), sizes };
}

/** `values` of the kept completions alone. */
export const pick = ({ kept }: Selection, values: Float64Array): Float64Array =>
  Float64Array.from(kept, (i) => values[i]!);

/** Advantages of the kept completions put back among `total`; the others get 0. */
export function scatter({ kept }: Selection, ofKept: Advantages, total: number): Advantages {
  const values = new Float64Array(total);
  kept.forEach((i, j) => (values[i] = ofKept.values[j]!));
  return { ...ofKept, values };
}
