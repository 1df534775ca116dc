/** From the text of an answer to what is compared: a key, words and a tree. */
import { mapChildren, type Node, some } from './ast';
import { LETTER_UNITS, TEXT_COMMAND } from './lexicon';
import { MAX_ANSWER_CHARS } from './budget';
import { denies } from './hedges';
import { joinThousands } from './numbers';
import type { ParseOptions } from './options';
import { Parser } from './parser';
import { words } from './atoms';
import { joinBases } from './bases';
import { defined } from './definitions';
import { type Choice, choiceOf } from './choices';
import { withNames, withPoints } from './named-parts';
import { plainSpelling } from './spelling';
import { attempt, nesting, NotParsed, type Token, tokenize, tokenKey } from './tokens';

export interface Answer {
  /** Answers with equal keys are the same up to layout. */
  key: string;
  /** The answer as lower-case words, when it consists only of words, names and numbers. */
  words: string | null;
  /** It contains a word, not only variables. */
  spelled: boolean;
  /** null when it does not parse as mathematics. */
  node: Node | null;
  /** `node` without a unit of one letter (10 m), if it can be read that way. */
  withoutUnit: Node | null;
  /** The multiple-choice letter and the value beside it. */
  choice: { letter: string; value: Answer | null } | null;
}

/** Never throws. */
export function parseAnswer(text: string, options: ParseOptions): Answer {
  const unread = { words: null, spelled: false, node: null, withoutUnit: null, choice: null };
  const nothing: Answer = { key: text.trim(), ...unread };
  if (text.length > MAX_ANSWER_CHARS) return nothing;
  try {
    const plain = plainSpelling(text);
    const tokens = trimmed(splitWords(tokenize(plain)));
    const numbers = numbered(tokens);
    const node = definitionTree(tokens, options) ?? treeOf(numbers, options);
    return {
      key: tokenKey(tokens),
      ...wordsOf(tokens),
      node,
      withoutUnit: node === null ? null : letterUnit(numbers, options),
      choice: choice(plain, options),
    };
  } catch (error) {
    if (error instanceof NotParsed) return nothing;
    throw error;
  }
}

/** Tokens with lists parted, brackets turned and numbers joined. */
const numbered = (tokens: readonly Token[]): Token[] =>
  joinThousands(joinBases(plainBrackets(partEquations(tokens))));

/** The tree of a function with its signature or quantifier; null when there is none. */
const definitionTree = (tokens: readonly Token[], options: ParseOptions): Node | null =>
  attempt(() => defined(tokens, (part) => parseTokens(numbered(part), options)));

function choice(text: string, options: ParseOptions): Answer['choice'] {
  const found = choiceOf(text) ?? bareLetter(text);
  if (found === null || found.value === '') return found && { letter: found.letter, value: null };
  const value = parseAnswer(found.value, options);
  // Text that cannot be parsed is not the value of a letter.
  return value.node === null && value.words === null ? null : { letter: found.letter, value };
}

const BARE_LETTER = new RegExp(
  String.raw`^[\s${'$'}{]*(?:${TEXT_COMMAND}\s*\{\s*)?([A-E])\s*\}*[\s${'$'}.]*${'$'}`,
);

function bareLetter(text: string): Choice | null {
  const letter = BARE_LETTER.exec(text)?.[1];
  return letter === undefined ? null : { letter, value: '' };
}

const RELATION = new Set(['=', '<', '>', 'le', 'ge', 'approx', '≡']);

/** Separates equations at wide spaces: `x = 1 \quad y = 2`. */
function partEquations(tokens: readonly Token[]): Token[] {
  const isRelation = (token: Token): boolean => token.t !== 'text' && RELATION.has(token.v);
  const out: Token[] = [];
  let since = 0;
  let open = 0;
  tokens.forEach((token, i) => {
    open += token.t === 'begin' ? 1 : token.t === 'end' ? -1 : 0;
    const end = tokens.findIndex((later, k) => k > i && (later.wide === true || later.t === 'sep'));
    const after = token.wide === true ? tokens.slice(i, end < 0 ? undefined : end) : [];
    const between = [tokens.slice(since, i), after.slice(1)].every((part) => part.some(isRelation));
    if (open === 0 && between && !isRelation(token)) {
      out.push({ t: 'sep', v: ',', space: true });
      since = i;
    }
    if (token.t === 'sep') since = i + 1;
    out.push(token);
  });
  return out;
}

const ENDS_VALUE = new Set([')', ']', '}', '}set', '%', '!', 'infty', 'pi']);
const AROUND = new Set(['cup', 'cap', 'setminus', 'in', '=', 'le', 'ge', '}set', ')']);

/** Rewrites reversed brackets: `]1, 5[` is (1, 5). */
function plainBrackets(tokens: readonly Token[]): Token[] {
  if (!tokens.some((token) => token.v === '[' || token.v === ']')) return [...tokens];
  const parts = (token: Token | undefined): boolean =>
    token === undefined || token.t === 'sep' || (token.t !== 'text' && AROUND.has(token.v));
  const value = (token: Token | undefined): boolean =>
    token !== undefined &&
    (token.t === 'num' || token.t === 'letters' || (token.t !== 'text' && ENDS_VALUE.has(token.v)));
  return tokens.map((token, i) => {
    const [before, after] = [tokens[i - 1], tokens[i + 1]];
    if (token.t !== 'op') return token;
    if (token.v === ']' && parts(before) && !parts(after)) return { ...token, v: '(' };
    if (token.v === '[' && value(before) && parts(after)) return { ...token, v: ')' };
    return token;
  });
}

/** `Therefore, the answer is` is no list. */
const LEADING = /^\s*(?:so|thus|hence|therefore|then|finally),/i;

/** Splits words with commas inside into a list of words. */
function splitWords(tokens: readonly Token[]): Token[] {
  return tokens.flatMap((token) => {
    if (token.t !== 'text' || !/[,;]|\b(?:and|or)\b/.test(token.v)) return [token];
    return token.v
      .replace(LEADING, '')
      .split(/([,;]|\b(?:and|or)\b)/)
      .filter((part) => words(part) !== '' || /[,;]/.test(part))
      .map((part): Token => ({ t: /^([,;]|and|or)$/.test(part) ? 'sep' : 'text', v: part, space: true }));
  });
}

/** `the answer is` */
const ANNOUNCES =
  /^\s*(?:(?:so|thus|hence|therefore),? )?(?:the )?(?:final )?(?:answer|solution|result)s?(?: is| are)?\s*:?\s*$/i;

/** Drops punctuation at the ends and phrases that announce the answer. */
function trimmed(tokens: Token[]): Token[] {
  const isDust = (token: Token | undefined): boolean =>
    token !== undefined &&
    (token.t === 'sep' ||
      (token.t === 'op' && ['.', ':', '\\\\', '?'].includes(token.v)) ||
      (token.t === 'text' &&
        ((words(token.v) === '' && !/[^\s.,:;?'"()-]/.test(token.v)) || ANNOUNCES.test(token.v))));
  let [start, end] = [0, tokens.length];
  while (start < end && (isDust(tokens[start]) || ['=', '≡', 'approx'].includes(tokens[start]!.v))) start++;
  while (end > start && (isDust(tokens[end - 1]) || tokens[end - 1]!.v === '=')) end--;
  const rest = tokens.slice(start, end);
  return isOneGroup(rest) ? trimmed(rest.slice(1, -1)) : rest;
}

/** Whether braces enclose all of it. */
function isOneGroup(tokens: readonly Token[]): boolean {
  if (tokens[0]?.v !== '{' || tokens[0].t !== 'op' || tokens.length < 3) return false;
  let depth = 0;
  const end = tokens.findIndex((token) => {
    if (token.t === 'op') depth += token.v === '{' ? 1 : token.v === '}' ? -1 : 0;
    return depth === 0;
  });
  return end === tokens.length - 1;
}

const WORD_PUNCTUATION = new Set(['.', ':', "'", '(', ')', '-']);

function wordsOf(tokens: readonly Token[]): Pick<Answer, 'words' | 'spelled'> {
  const parts: string[] = [];
  // (A) is a choice, not a variable in brackets.
  let spelled =
    tokens.length === 3 && tokens[0]!.v === '(' && tokens[1]!.t === 'letters' && tokens[2]!.v === ')';
  for (const [i, token] of tokens.entries()) {
    if (token.t === 'text') {
      parts.push(spelledOut(token.v));
      spelled ||= /\p{L}/u.test(token.v);
    } else if (token.t === 'letters') {
      parts.push(token.v.toLowerCase());
      spelled ||= token.v.length > 1;
    } else if (token.t === 'num') {
      parts.push(` ${token.v} `);
    } else if (token.t === 'sep') {
      parts.push(',');
    } else if (token.t !== 'op' || !WORD_PUNCTUATION.has(token.v)) {
      return { words: null, spelled: false };
    } else if (
      token.v === '-' ? !between(tokens, i) : '()'.includes(token.v) && i > 0 && i < tokens.length - 1
    ) {
      return { words: null, spelled: false };
    }
  }
  const joined = parts
    .join('')
    .replace(/(\p{L})(?=\d)|(\d)(?=\p{L})/gu, '$1$2 ')
    .replace(/\s+/g, ' ')
    .trim();
  return { words: joined === '' ? null : joined, spelled };
}

/** Joins the letters without anything between them, but keeps numbers apart. */
function spelledOut(text: string): string {
  const parts = text.toLowerCase().match(/\d+(?:\.\d+)?|\p{L}+/gu) ?? [];
  return parts.map((part) => (/\d/.test(part) ? ` ${part} ` : part)).join('');
}

/** Whether the hyphen at `i` joins two words, unlike a minus. */
function between(tokens: readonly Token[], i: number): boolean {
  const long = (token: Token | undefined): boolean =>
    token?.t === 'text' || (token?.t === 'letters' && token.v.length > 1);
  return long(tokens[i - 1]) && long(tokens[i + 1]);
}

function treeOf(tokens: Token[], options: ParseOptions): Node | null {
  if (tokens.length === 0) return null;
  return attempt(() => parseTokens(tokens, options)) ?? attempt(() => namedValues(tokens, options));
}

function parseTokens(tokens: readonly Token[], options: ParseOptions): Node {
  const parser = new Parser([...tokens], options);
  const groups = parser.lists(() => false);
  if (groups.length === 0) throw new NotParsed('nothing');
  return finished(assemble(groups));
}

const finished = (node: Node): Node => withNames(withPoints(expandSigns(resolveApproximations(node))));

/** `\max f(x) = 12`: a left side that does not parse names the right one; of a chain the last side counts. */
function namedValues(tokens: readonly Token[], options: ParseOptions): Node {
  const items = topLevelItems(tokens);
  const nodes = items.map((item): Node => {
    const readable = attempt(() => parseTokens(item, options));
    if (readable !== null) return readable;
    const equals = item.flatMap((token, i) => (token.t === 'op' && ['=', '≡'].includes(token.v) ? [i] : []));
    if (equals.length === 0) throw new NotParsed('no value');
    const value = parseTokens(item.slice(equals.at(-1)! + 1), options);
    if (equals.length > 1) return value;
    const written = tokenKey(item.slice(0, equals[0]));
    if (denies(written)) throw new NotParsed('not this value');
    const name = written.replace(/[^\p{L}\p{N}#]+/gu, '');
    return { kind: 'relation', sides: [{ kind: 'text', value: name }, value], ops: ['='] };
  });
  return withNames(nodes.length === 1 ? nodes[0]! : { kind: 'set', items: nodes });
}

/** Splits the tokens at separators outside brackets. */
function topLevelItems(tokens: readonly Token[]): Token[][] {
  const items: Token[][] = [[]];
  let depth = 0;
  for (const token of tokens) {
    depth += token.t === 'begin' ? 1 : token.t === 'end' ? -1 : nesting(token);
    if (token.t === 'sep' && depth === 0) items.push([]);
    else items.at(-1)!.push(token);
  }
  return items.filter((item) => item.length > 0);
}

function assemble(groups: Node[][]): Node {
  if (groups.length === 1)
    return groups[0]!.length === 1 ? groups[0]![0]! : { kind: 'set', items: groups[0]! };
  if (groups.every((group) => group.length === 1)) return { kind: 'set', items: groups.flat() };
  return {
    kind: 'set',
    items: groups.map((items): Node => ({ kind: 'tuple', open: '(', close: ')', items })),
  };
}

/** x ≈ 5 is 5; the approximate end of a chain is dropped. */
function resolveApproximations(node: Node): Node {
  const inner = mapChildren(node, resolveApproximations);
  if (inner.kind !== 'relation' || !inner.ops.includes('~')) return inner;
  const at = inner.ops.indexOf('~');
  if (at === 0 && isNameLike(inner.sides[0]!)) return inner.sides[1]!;
  if (at === 0) return inner.sides[0]!;
  return { kind: 'relation', sides: inner.sides.slice(0, at + 1), ops: inner.ops.slice(0, at) };
}

/** A name, or a product, quotient or sum of names: something a value is assigned to. */
export function isNameLike(node: Node): boolean {
  switch (node.kind) {
    case 'sym':
    case 'apply':
    case 'text':
    case 'bigop':
      return true;
    case 'const':
      return node.name === 'e' || node.name === 'i';
    case 'mul':
      return node.factors.every(isNameLike);
    case 'add':
      return node.terms.every(isNameLike);
    case 'div':
      return isNameLike(node.top) && isNameLike(node.bottom);
    case 'fn':
      if (['gcd', 'lcm', 'max', 'min'].includes(node.name))
        return node.args.every((arg) => arg.kind === 'num' || isNameLike(arg));
      return ['abs', 'sin', 'cos', 'tan'].includes(node.name) && node.args.every(isNameLike);
    case 'tuple':
      return node.items.every(isNameLike);
    default:
      return false;
  }
}

/** Expands an item with ± into two items. */
function expandSigns(node: Node): Node {
  const items = expandItem(node);
  return items.length === 1 ? items[0]! : { kind: 'set', items };
}

function expandItem(node: Node): Node[] {
  if (node.kind === 'set') return [{ kind: 'set', items: node.items.flatMap(expandItem) }];
  if (!some(node, (inner) => inner.kind === 'pm')) return [node];
  return [withSign(node, false), withSign(node, true)];
}

function withSign(node: Node, minus: boolean): Node {
  const inner = mapChildren(node, (child) => withSign(child, minus));
  if (inner.kind !== 'pm') return inner;
  return minus !== inner.flipped ? { kind: 'neg', value: inner.value } : inner.value;
}

/** The value before a unit that could also be a variable: 10 m, 10 \\Omega, 10 \\mu m. */
function letterUnit(tokens: readonly Token[], options: ParseOptions): Node | null {
  const power = tokens.findIndex((token) => token.v === '^');
  const end = power === tokens.length - 2 && power > 0 ? power : tokens.length;
  const start = unitStart(tokens, end - 1);
  const before = tokens.slice(0, start);
  if (start < 1 || before.some((token) => token.t === 'letters')) return null;
  return treeOf(before, options);
}

/** Index where the unit ending at the token `last` begins; -1 if there is none. */
function unitStart(tokens: readonly Token[], last: number): number {
  const [token, before] = [tokens[last], tokens[last - 1]];
  if (token === undefined) return -1;
  const prefix = before?.t === 'cmd' && before.v === 'mu';
  if (token.t === 'cmd' && token.v === 'Omega') {
    const kilo = (before?.t === 'letters' || before?.t === 'text') && /^\s*[kMGm]\s*$/.test(before.v);
    return kilo ? last - 1 : last;
  }
  if (prefix && (token.t === 'letters' || token.t === 'text') && /^\s*[msgLlFCAVH]\s*$/.test(token.v))
    return last - 1;
  return token.t === 'letters' && token.space && LETTER_UNITS.has(token.v) ? last : -1;
}
