/** A multiple-choice letter, alone or with the value beside it. */
import { TEXT_COMMAND } from './lexicon';

export interface Choice {
  letter: string;
  /** The unparsed text after the letter; empty when the letter stands alone. */
  value: string;
}

const TEXT = String.raw`${TEXT_COMMAND}\s*\{\s*`;
const WORD = String.raw`(?:the\s+)?(?:[Oo]ption|[Cc]hoice|[Aa]nswer(?:\s+choice)?)\s*:?\s*(?:is\s+)?`;
const MARK = new RegExp(
  String.raw`^[\s$]*(?<text>${TEXT})?(?:${WORD}\(?(?<named>[A-E])\)?(?![a-zA-Z0-9_^'=])\.?` +
    String.raw`|(?:${WORD})?\(\s*(?:${TEXT})?(?<round>[A-E])\s*\}?\s*\)` +
    String.raw`|(?<open>[A-E])\s*(?<mark>[.):])(?=[\s\\~}]|$))`,
);
const SPACE = /^(?:\s|\\!|\\q?quad\b)*/;
/** Text that continues like this is a formula that begins with a letter. */
const GOES_ON = /^(?:[+*/^=,_!<>|:;&\])-]|\\(?:cup|cap|cdot|times|to|in|le|ge|ne|setminus)\b)/;

/** The choice that `text` begins with, or null. */
export function choiceOf(text: string): Choice | null {
  const match = MARK.exec(text);
  if (match === null) return null;
  const groups = match.groups!;
  const letter = groups.named ?? groups.round ?? groups.open!;
  let rest = text.slice(match[0].length);
  const marked = groups.text !== undefined || groups.named !== undefined;
  if (groups.text !== undefined) {
    // The brace of \text{ closes after the letter or after the value.
    const close = closing(rest);
    if (close < 0) return null;
    rest = rest.slice(0, close) + rest.slice(close + 1);
  }
  const space = SPACE.exec(rest)![0];
  const value = rest.slice(space.length).replace(/[\s$.]+$/, '');
  if (value === '') return { letter, value };
  // (E) -2 is a choice with a value, (E) - 2 is a difference.
  const minus = /^-\S/.test(value) && (marked || groups.open !== undefined || space !== '');
  if (!minus && GOES_ON.test(value)) return null;
  if (!marked && space === '' && groups.round !== undefined) return null;
  return { letter, value };
}

/** The position in `text` of the brace that closes one opened before it. */
function closing(text: string): number {
  let depth = 1;
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '\\') at++;
    else if (text[at] === '{') depth++;
    else if (text[at] === '}' && --depth === 0) return at;
  }
  return -1;
}
