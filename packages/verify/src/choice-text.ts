/** A choice named in a sentence: `The answer is (B).`, `**Answer: B**`, `Option D is correct`. */
import { MAX_TAIL_CHARS } from './budget';
import { doubtedBefore } from './context';

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
const GOES_ON =
  /^\s*(?:[-+=^_/<>?]|\\[a-z]|,?\s*(?:or|and|nor|to)\s[\s*$(]{0,6}[A-J](?![a-zA-Z])|,\s*[*$(]{0,6}[A-J](?![a-zA-Z])|(?:is|was)\s+(?:not|wrong|incorrect|false)\b)/;
/** Words after a letter without brackets, which may be an article or a pronoun: `A perfect square`. */
const WORD = /^\s+(?!(?:because|since|as|by|which|with|for|is|and|but|not|rather)\b)[a-zA-Z]/;
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
    if (GOES_ON.test(rest)) continue;
    const { open, close, letter } = match.groups!;
    const bare = !/[($*{[]/.test(open!) && close === '';
    if (bare && WORD.test(rest)) continue;
    if (isDoubted(tail, match.index)) continue;
    last = { at: match.index + match[0].length, letter: letter! };
  }
  for (const match of tail.matchAll(CORRECT)) {
    const end = match.index + match[0].length;
    if (last !== null && end <= last.at) continue;
    if (isDoubted(tail, match.index)) continue;
    last = { at: end, letter: match.groups!.letter! };
  }
  return last?.letter ?? null;
}

function isDoubted(text: string, at: number): boolean {
  return doubtedBefore(text, at, CONDITION);
}
