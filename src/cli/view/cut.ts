/** Cuts long texts in the middle. */

/** How much of a text's start, and again of its end, is kept. */
export interface Keep {
  characters: number;
  lines: number;
}

export interface Cut {
  head: string;
  tail: string;
  /** Characters between them. */
  leftOut: number;
}

/** Enough to judge a completion by, on less than half a screen each. */
export const KEEP_TO_READ: Keep = { characters: 640, lines: 10 };
/** A glimpse between the lines of a run. */
export const KEEP_SAMPLE: Keep = { characters: 240, lines: 4 };
export const KEEP_QUESTION: Keep = { characters: 1200, lines: 12 };

/** The start of `text`: at most so many lines and characters, and no part of a word if that can be helped. */
function headOf(text: string, { characters, lines }: Keep): string {
  const start = text.slice(0, characters).split('\n').slice(0, lines).join('\n');
  if (start.length < characters || /^(\s|$)/.test(text.slice(characters))) return start;
  const word = start.search(/\S+$/);
  // Half of a surrogate pair is no character.
  return word > characters / 2 ? start.slice(0, word) : start.replace(/[\ud800-\udbff]$/, '');
}

const reversed = (text: string) => Array.from(text).reverse().join('');

/** The start and the end of `text`, or null if little would be left out. */
export function cutMiddle(text: string, keep: Keep): Cut | null {
  const few = text.split('\n', 2 * keep.lines + 2).length <= 2 * keep.lines + 1;
  if (few && text.length <= 2.5 * keep.characters) return null;
  // Only what can be kept is looked at: the text may be very long.
  const piece = 2 * keep.characters;
  const head = headOf(text.slice(0, piece), keep);
  const tail = reversed(headOf(reversed(text.slice(-piece)), keep));
  const leftOut = text.length - head.length - tail.length;
  return leftOut <= 0 ? null : { head: head.trimEnd(), tail: tail.replace(/^\n+/, ''), leftOut };
}
