/** What must be the same on every rank before the first step. */
import { badInput } from '../base/errors';
import { listed } from '../base/text';
import type { Ranks } from '.';

/** What is compared, by name: `learningRate`, `the model's weights`. */
export type Facts = Readonly<Record<string, string>>;

/** What `given` says, by name, but for what may differ. */
export const factsOf = (given: object, mayDiffer: ReadonlySet<string>): Facts =>
  Object.fromEntries(
    Object.entries(given)
      .filter(([name, value]) => !mayDiffer.has(name) && value !== undefined)
      .map(([name, value]) => [name, JSON.stringify(value)]),
  );

const MOST_CHARS = 80;
const MOST_NAMED = 5;

const shown = (value: string | undefined): string =>
  value === undefined ? 'nothing' : value.length > MOST_CHARS ? `${value.slice(0, MOST_CHARS)}...` : value;

/**
 * Compares what each rank knows with what rank 0 knows; every rank finds the same.
 * @param what in words: `the settings`
 * @throws BAD_INPUT naming the first rank that differs, and in what
 */
export async function agreeOn(ranks: Ranks, what: string, own: () => Promise<Facts>): Promise<void> {
  const all = await ranks.gather(`the comparison of ${what}`, own);
  const [first] = all;
  all.forEach((other, rank) => {
    const names = [...new Set([...Object.keys(first!), ...Object.keys(other)])];
    const differing = names.filter((name) => first![name] !== other[name]);
    if (differing.length === 0) return;
    const texts = differing
      .slice(0, MOST_NAMED)
      .map((name) => `${name} (${shown(other[name])}, and on rank 0 ${shown(first![name])})`);
    const more = differing.length > MOST_NAMED ? [`${differing.length - MOST_NAMED} others`] : [];
    throw badInput(
      `Rank ${rank} differs from rank 0 in ${listed([...texts, ...more])}: give every rank the same ${what}.`,
    );
  });
}
