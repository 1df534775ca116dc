/**
 * What a sentence says about a value in it. Words beside a value in a box are part of the answer unless they
 * are known (`hedges.ts`); here the rule is applied to as many words of the sentence as speak of the value.
 */
import { hedgeOf } from './hedges';
import type { Span } from './segments';

/** `denied`: the value is said not to be the answer. */
export interface Said extends Span {
  denied: boolean;
}

/** How far a sentence is read on either side of a value. */
const MAX_CONTEXT_CHARS = 160;
const MAX_AFTER_WORDS = 8;

const NUMBER = String.raw`[-+]?\d[\d.,]*(?<![.,])`;
const JOINS = String.raw`(?:,\s*)?(?:and|or|nor)|,|to|through`;
const EARLIER = new RegExp(String.raw`(${NUMBER})[\s*$]{0,4}(${JOINS})[\s*$]{1,4}$`);
const LATER = new RegExp(String.raw`^[\s*$]{0,4}(${JOINS})[\s*$]{1,4}(${NUMBER})(?![\d.,]*\d)`);
const MAX_JOINED = 6;

/** The value with the words that change it; alternatives become a list. */
export function saidOf(text: string, span: Span, type: 'latex' | 'expr'): Said {
  const list = type === 'expr' ? listAt(text, span) : { ...span };
  const before = wordsBefore(text.slice(Math.max(0, list.start - MAX_CONTEXT_CHARS), list.start));
  const after = wordsAfter(text.slice(list.end, list.end + MAX_CONTEXT_CHARS));
  const hedge = hedgeBefore(before) ?? '';
  const rest = hedgeAfter(after) ?? '';
  const denied = negates(before) || /^(?:(?:is|was) )?(?:not|wrong|incorrect|false)\b/i.test(rest);
  // A name would be read as the name of the words' value.
  const value = hedge === '' && rest === '' ? list.text : list.text.slice(list.text.lastIndexOf('=') + 1);
  const said = `${hedge && `\\text{${hedge} }`}${value}${rest && `\\text{ ${rest}}`}`;
  return { start: span.start, end: span.end, text: said, denied };
}

/** The number with those that `and` or `or` joins to it. */
function listAt(text: string, span: Span): Span {
  let { start, end } = span;
  const items = [span.text];
  const joins: string[] = [];
  while (items.length < MAX_JOINED) {
    const from = Math.max(0, start - 48);
    const match = EARLIER.exec(
      text.slice(from, start).replace(/-?\$\s?$/, (sign) => ' '.repeat(sign.length)),
    );
    if (match === null || /[\w^./}]/.test(text[from + match.index - 1] ?? ' ')) break;
    start = from + match.index;
    items.unshift(match[1]!);
    joins.unshift(match[2]!);
  }
  while (items.length < MAX_JOINED) {
    const match = LATER.exec(text.slice(end, end + 48));
    if (match === null) break;
    end += match[0].length;
    items.push(match[2]!);
    joins.push(match[1]!);
  }
  if (!joins.some((join) => join !== ',')) return span;
  const range = joins.some((join) => /^t/.test(join));
  return { start, end, text: range ? `\\text{${items.join(' to ')}}` : items.join(',') };
}

const MARKS = /[*_`~{}$\\()[\]"“”]/g;

/** The words of the sentence before a value, in lower case, from the last value or consequence on. */
function wordsBefore(text: string): string {
  const sentence = text.slice(lastEnd(text, /\n\s*\n|(?<![a-z])\n|[.!?;]\s/gi));
  const plain = sentence
    .replace(/\\(?:text|mathrm|textbf|mathbf|operatorname|left|right|quad)\b/g, ' ')
    .replace(MARKS, ' ')
    .toLowerCase()
    .replace(/’/g, "'");
  const clause = plain.slice(lastEnd(plain, RESTARTS));
  const value = lastEnd(clause, /\d/g);
  const own = clause.slice(value).replace(/\s+/g, ' ').trim();
  // "not 94 but 84", "84, 94 rather": what is joined to a denied value is affirmed only by a word.
  if (value > 0 && /^,? ?but(?: rather| instead)?$/.test(own)) return '';
  const comma = own.lastIndexOf(', ');
  return comma >= 0 && STATES.test(own.slice(comma)) ? own.slice(comma + 2) : own.replace(/^[,:.] ?/, '');
}

/** From here on a sentence speaks of something new. */
const RESTARTS =
  /\b(?:so\b|thus\b|hence\b|therefore\b|then\b|but (?=the |it |we |he |she |they |in |i |that ))/g;
const STATES = /\b(?:is|are|was|were|equals?|gets?|have|has|gives)\b|=/;

function lastEnd(text: string, pattern: RegExp): number {
  let end = 0;
  for (const match of text.matchAll(pattern)) end = match.index + match[0].length;
  return end;
}

const NEGATES =
  /\b(?:not|never|cannot|[a-z]+n't|isnt|cant|wont|doesnt|arent|wasnt|neither|nor|rather than|instead of|wrong|incorrect|false|impossible|unlikely|doubt|rules? out|ruled out|exclud\w+|anything but|no longer)\b/;
const COPULA = /\b(?:is|are|was|were|equals|be|becomes|being)\b|[:=]/g;
/** Words that leave a statement as it is. */
const ADVERBS =
  /\b(?:also|simply|indeed|actually|clearly|really|still|always|in fact|of course|equal to|given by|found to|computed as|as follows|indeed|again|now|then)\b/g;
/** A value of these names is another one. */
const OTHER_NAMES =
  /(?:\b(?:(?:lower|upper) (?:bound|limit)|bound|estimate|guess|at (?:least|most)|less than|more than|greater than|up to|other than|unlike)|^(?:the |its |and )?(?:negation|negative|opposite|reciprocal|square|double|twice|half)|\b(?:negation|negative|opposite|reciprocal|square|double|twice|half) of (?:the|my|our) (?:final )?(?:answer|result))$/;

/** A verb far before "is" speaks of something else: `those that don't work leave us with the answer: 94`. */
function negates(words: string): boolean {
  const at = lastEnd(words, COPULA);
  const near = words.slice(0, at).split(' ').slice(-NAME_WORDS).join(' ');
  return NEGATES.test(`${near} ${words.slice(at)}`);
}
const NAME_WORDS = 8;

/** Whether the sentence before `at` denies what stands there, or names it under a `condition`. */
export function doubtedBefore(text: string, at: number, condition: RegExp): boolean {
  const words = wordsBefore(text.slice(Math.max(0, at - MAX_CONTEXT_CHARS), at));
  return negates(words) || condition.test(words);
}

/** The words before a value that change it, or null. */
function hedgeBefore(words: string): string | null {
  if (words === '') return null;
  const at = lastEnd(words, COPULA);
  if (negates(words)) return safe(words);
  const name = words.slice(0, at).replace(/\s*(?:\b(?:is|are|was|were|equals|be|becomes|being)\b|[:=])$/, '');
  if (OTHER_NAMES.test(name.replace(/ (?:must|will|should|would|can|could|may|might) *$/, '').trim()))
    return safe(words);
  if (/\b(?:may|might|could|if)\b/.test(name.slice(-24)) && /\b(?:may|might|could)(?: be)? *$/.test(name))
    return safe(words);
  const tail = words
    .slice(at)
    .replace(ADVERBS, ' ')
    .replace(/[^a-z' ]+/g, ' ')
    .trim()
    .split(/\s+/);
  const own = tail.join(' ');
  if (own === '' || hedgeOf(own, 'before') === null) return null;
  // Directly after "the answer is" every word counts, elsewhere those that compute, bound or go on.
  if (at > 0 && /\banswer\b/.test(name)) return safe(own);
  const near = tail.slice(-5);
  const known = [5, 4, 3, 2].find(
    (count) => count <= near.length && hedgeOf(near.slice(-count).join(' '), 'before') === null,
  );
  const changing = near.slice(0, near.length - (known ?? 0)).join(' ');
  return COMPUTES.test(changing) ? safe(own) : null;
}

/** Words that compute with a value in a sentence or bound it. */
const COMPUTES =
  /\b(?:nearly|almost|at (?:least|most)|than|up to|between|beyond|over|under|below|above|exceed\w*|twice|doubled?|triple|half|thirds?|quarters?|squared?|cubed?|root|multiples?|divisors?|factors?|predecessor|successor|reciprocal|inverse|opposite|negative|minus|plus|times|modulo|mod|base|log|either|maybe|perhaps|possibly|probably|close to|near|next to|within|one of|except|before|different from|distinct from|un\w*equal|congruent|guess|if|no)\b/;

function wordsAfter(text: string): string {
  const rest = text.replace(/^(?:[*_`$)\]]|\\[)\]])+/, '');
  if (!/^[\s-]{0,3}[\p{L}°²³]/u.test(rest) || /^\s*\n\s*\n/.test(rest)) return '';
  const line = /^\s*\n/.test(rest) ? rest.trimStart().replace(/^[A-Z][^]*/, '') : rest;
  return /^[^\n.,;:!?()[\]$\\=*"]*/.exec(line)![0].trim();
}

/** Words that go on with the sentence, when no value or bound follows them. */
const GOES_ON =
  /^(?:is|was|are|were|as|because|since|when|where|which|who|that|so|and|but|by|for|with|at|on|to|in|if|then|there|here|it|we|this|after|while|among|during|all|using|given|hence|thus|therefore|left|remaining|altogether|total|each|satisf(?:y|ies)|works?|gives?|makes?|has|have|had|can|will|would|must|should|again|too|also|i|not|of (?:them|these|those|us)|rather than|instead of)$/;
const TURNS =
  /^(?:(?:is|was|are|were) (?:not|wrong|incorrect|false|too|only an?|an? (?:lower|upper)|less|more|greater|below|above)|as an? (?:lower|upper)|at (?:most|least)|in (?:base|binary|hex\w*|octal|radix|mod\w*|\w*(?:hundred|thousand|million|dozen)s?|tens|ones)|to (?:the|an?) (?:power|\w+(?:th|rd|nd)|square|cube)|to [\d-]|by [\d-]|and (?:an? |one |two |three )|and (?:above|below|up|over|more|under|counting|a)\b|with(?:out)? [\d-]|after (?:rounding|subtract)|not$|too (?:many|few|much|high|low|big|small|large)|if not)/;
const CHANGES =
  /^(?:less|fewer|more|below|above|before|after(?! \w+ing\b)|ago|short|too|off|over|under|minus|plus|times|divided|multiplied|squared|cubed|or|from|out|excluded|wrong|not|and an? |halved|doubled|percent|thousand|million|billion|hundred|dozen|raised|mod|modulo|[\d-])/;

/** The words after a value that change it, or null. */
function hedgeAfter(text: string): string | null {
  if (text === '') return null;
  const words = text.split(/\s+/).slice(0, MAX_AFTER_WORDS + 4);
  if (TURNS.test(words.join(' ').toLowerCase())) return safe(words.join(' '));
  let known = Math.min(words.length, MAX_AFTER_WORDS);
  while (known > 0 && hedgeOf(` ${words.slice(0, known).join(' ')}`, 'after') !== null) known--;
  const rest = words.slice(known).join(' ');
  if (rest === '') return null;
  const lower = rest.toLowerCase();
  const next = /^of \w+|^rather than|^instead of|^\S+/.exec(lower)?.[0] ?? '';
  if (TURNS.test(lower)) return safe(words.join(' '));
  if (GOES_ON.test(next) && !(known > 0 && CHANGES.test(lower) && next === 'after')) return null;
  return known > 0 && !CHANGES.test(lower) ? null : safe(words.join(' '));
}

const safe = (words: string): string => words.replace(/[\\{}$]/g, ' ').trim();

const OPERATOR_AT_END = /(?:[=+×÷^<>≤≥±≈/]|(?<=\s)[-*]|\\(?:times|cdot|div|pm|le|leq|ge|geq|approx))[\s$]*$/;
const NO_OPERATOR = /(?:<\/?[a-z][\w-]*\s*\/?>|==+|--+|\*\*+|<[|｜][^<>]{0,64}>|\n\s*[-*=+])\s*$/i;

/** Whether a text breaks off after an operator: `so x = 3 + 4 =`. */
export function breaksOff(text: string): boolean {
  const end = text.slice(-96).trimEnd();
  return OPERATOR_AT_END.test(end) && !NO_OPERATOR.test(end);
}
