/** Which rank computes what of a batch. */
import { runTokens, type Run, type Tokens } from '../base/packing';

/**
 * Deals `runs` to `size` ranks, each of which gets about the same number of tokens: the longest first, each to the rank
 * that has fewest. Returns the runs of every rank, in their order.
 */
export function dealtByTokens<Sequence extends Tokens>(
  size: number,
  runs: readonly Run<Sequence>[],
): Run<Sequence>[][] {
  const tokens = runs.map(runTokens);
  const order = runs.map((_, i) => i).sort((a, b) => tokens[b]! - tokens[a]! || a - b);
  const hands = Array.from({ length: size }, () => ({ places: [] as number[], tokens: 0 }));
  for (const place of order) {
    const hand = hands.reduce((least, other) => (other.tokens < least.tokens ? other : least));
    hand.places.push(place);
    hand.tokens += tokens[place]!;
  }
  return hands.map(({ places }) => places.sort((a, b) => a - b).map((place) => runs[place]!));
}
