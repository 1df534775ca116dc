/** Multiple-choice letters: alone, with the value beside it, or named in a sentence. */
import { MAX_TAIL_CHARS } from './budget';
import { doubtedBefore } from './context';
import { TEXT_COMMAND } from './lexicon';
import { closingBrace } from './markup';

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
    const close = closingBrace(rest, 0);
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

/** A choice named in a sentence: `The answer is (B).`, `**Answer: B**`, `Option D is correct`. */
const COMMAND = String.raw`\\(?:text|textbf|textit|mathrm|mathbf|operatorname)\s?`;
const OPENS = String.raw`(?:[\s*_$({["'“]|\\[(\[]|${COMMAND}){0,12}`;
const CLOSES = String.raw`(?:[*_$)}\]"'”]|\\[)\]]){0,12}`;
const LETTER = String.raw`(?<open>${OPENS})(?<![a-zA-Z0-9])(?<letter>[A-J])(?![a-zA-Z0-9_^’])(?<close>${CLOSES})`;

const NAME = String.raw`\b(?:[Aa]nswer|ANSWER|[Cc]hoice|CHOICE|[Oo]ption|OPTION)(?:\s(?:choice|option|letter))?`;
const IS = String.raw`[\s*_]{0,6}(?:\b(?:is|would be|must be|should be|will be)\b:?|[:=])`;
const ADVERB = String.raw`(?:[\s*_]{0,6}(?:therefore|thus|clearly|indeed|then|hence|the)\b,?)?`;
const KIND = String.raw`(?:[\s*_]{0,6}(?:[Oo]ption|[Cc]hoice|[Ll]etter|[Aa]nswer)\b:?)?`;
const PRONOUN = String.raw`\b(?:[Ii]t's|[Ii]t is|[Ii]t must be|[Ii]t should be|(?:choose|pick|select)(?: the)?)(?=[\s*])`;

const NAMED = new RegExp(`(?:${NAME}${IS}|${PRONOUN})${ADVERB}${KIND}${LETTER}`, 'g');
const CORRECT = new RegExp(
  String.raw`(?<=^|[\s*($])${LETTER}\s+is\s+(?:therefore |thus |clearly )?(?:the )?(?:correct|right|best|answer)\b`,
  'g',
);
const ALONE = new RegExp(String.raw`^${LETTER}[\s.]*$`);

/** A formula, a question, another choice or a denial. */
const SPEAKS_ON =
  /^\s*(?:[-+=^_/<>?]|\\[a-z]|,?\s*(?:or|and|nor|to)\s[\s*$(]{0,6}[A-J](?![a-zA-Z])|,\s*[*$(]{0,6}[A-J](?![a-zA-Z])|(?:is|was)\s+(?:not|wrong|incorrect|false)\b)/;
/** Words after a letter without brackets, which may be an article or a pronoun: `A perfect square`. */
const NEXT_WORD = /^\s+(?!(?:because|since|as|by|which|with|for|is|and|but|not|rather)\b)[a-zA-Z]/;
const CONDITION = /\b(?:if|whether|suppose|assume|unless|nor|neither|either|or)\b/;

/** The letter of a reference that is nothing but a choice, from A to J; null for another reference. */
export const choiceLetter = (gold: string): string | null =>
  gold.length > 64 ? null : (ALONE.exec(gold.trim())?.groups!.letter ?? null);

/** The choice that a text names last; null without one. */
export function choiceInText(text: string): string | null {
  const tail = text.slice(-MAX_TAIL_CHARS);
  const alone = tail.length > 64 ? null : ALONE.exec(tail.trim());
  if (alone !== null) return alone.groups!.letter!;
  let last: { at: number; letter: string } | null = null;
  for (const match of tail.matchAll(NAMED)) {
    const rest = tail.slice(match.index + match[0].length, match.index + match[0].length + 48);
    if (SPEAKS_ON.test(rest)) continue;
    const { open, close, letter } = match.groups!;
    const bare = !/[($*{[]/.test(open!) && close === '';
    if (bare && NEXT_WORD.test(rest)) continue;
    if (doubtedBefore(tail, match.index, CONDITION)) continue;
    last = { at: match.index + match[0].length, letter: letter! };
  }
  for (const match of tail.matchAll(CORRECT)) {
    const end = match.index + match[0].length;
    if (last !== null && end <= last.at) continue;
    if (doubtedBefore(tail, match.index, CONDITION)) continue;
    last = { at: end, letter: match.groups!.letter! };
  }
  return last?.letter ?? null;
}
