/** Which rank computes what of a batch, and which completions each samples. */
import { runTokens, type Run, type Tokens } from './packing';

/**
 * Deals `items` to `size` ranks, each of which gets about the same weight: the heaviest first, each to the rank that has
 * least. Returns the items of every rank, in their order.
 */
function dealtByWeight<Item>(
  size: number,
  items: readonly Item[],
  weightOf: (item: Item) => number,
): Item[][] {
  const weights = items.map(weightOf);
  const order = items.map((_, i) => i).sort((a, b) => weights[b]! - weights[a]! || a - b);
  const hands = Array.from({ length: size }, () => ({ places: [] as number[], weight: 0 }));
  for (const place of order) {
    const hand = hands.reduce((least, other) => (other.weight < least.weight ? other : least));
    hand.places.push(place);
    hand.weight += weights[place]!;
  }
  return hands.map(({ places }) => places.sort((a, b) => a - b).map((place) => items[place]!));
}

/** Deals `runs` to `size` ranks, each of which gets about the same number of tokens. */
export const dealtByTokens = <Sequence extends Tokens>(
  size: number,
  runs: readonly Run<Sequence>[],
): Run<Sequence>[][] => dealtByWeight(size, runs, runTokens);

/** Neighbouring samples of a prompt. */
export interface Samples {
  /** The prompt's place in the batch. */
  place: number;
  first: number;
  count: number;
}

/** Of what the prompts of a batch have in the order of their samples, the part that a rank was dealt, in its order. */
export const dealtOf = <Item>(hand: readonly Samples[], all: readonly (readonly Item[])[]): Item[] =>
  hand.flatMap(({ place, first, count }) => all[place]!.slice(first, first + count));

/** Parts of a batch for each rank: enough for it to be dealt evenly, few enough for prompts to be read few times. */
const PARTS_PER_RANK = 8;

/** Neighbouring completions of a prompt that are dealt together, of `completions` for `size` ranks. */
export const samplesOfPart = (size: number, completions: number): number =>
  Math.max(1, Math.floor(completions / (PARTS_PER_RANK * size)));

/**
 * Deals `samples` completions of every prompt to `size` ranks by their expected lengths. Each rank begins with the
 * longest, because one that begins last is waited for.
 * @param lengths what a completion of each prompt is expected to have, in tokens
 */
export function dealtByLength(size: number, lengths: readonly number[], samples: number): Samples[][] {
  const whole = lengths.map((_, place): Samples => ({ place, first: 0, count: samples }));
  if (size === 1) return [whole];
  const count = samplesOfPart(size, lengths.length * samples);
  const parts = whole.flatMap(({ place }) =>
    Array.from({ length: Math.ceil(samples / count) }, (_, part) => {
      return { place, count: Math.min(count, samples - part * count) };
    }),
  );
  const hands = dealtByWeight(size, parts, (part) => lengths[part.place]! * part.count);
  // Which of a prompt's samples a rank makes is all the same, so each makes neighbours, of one request.
  const next = lengths.map(() => 0);
  return hands.map((hand) => {
    const own = new Map<number, Samples>();
    for (const { place, count: more } of hand) {
      const before = own.get(place);
      if (before === undefined) own.set(place, { place, first: next[place]!, count: more });
      else before.count += more;
      next[place]! += more;
    }
    return [...own.values()].sort((a, b) => lengths[b.place]! - lengths[a.place]! || a.place - b.place);
  });
}
