/** Values in a text: formulas between delimiters, numbers, arithmetic, given strings. */

export interface Span {
  start: number;
  end: number;
  /** The text to parse. */
  text: string;
}

/** [opening, closing, whether it may span lines] */
const DELIMITERS = [
  ['$$', '$$', true],
  ['\\[', '\\]', true],
  ['\\(', '\\)', false],
  ['$', '$', false],
] as const;

const PERCENT = /^\s*(?:\\?%|[Pp]ercent(?:age)?|[Pp]ct)/;
const BARE_FRACTION = /^-?\\frac\{-?\d+(?:[.,]\d+)?\}\{-?\d+(?:[.,]\d+)?\}/;
const SQUARE = /^\s\[([^\n[\]]+)\](?=\s)/;

/** Formulas from left to right; a percent sign or word after one is part of it. */
export function formulas(text: string): Span[] {
  const found: Span[] = [];
  const unclosed = new Set<string>();
  for (let at = 0; at < text.length;) {
    const span = formulaAt(text, at, unclosed);
    if (span === null) {
      at++;
      continue;
    }
    const percent = PERCENT.exec(text.slice(span.end, span.end + 16));
    if (percent !== null) {
      span.end += percent[0].length;
      span.text += '\\%';
    }
    found.push(span);
    at = span.end;
  }
  return found;
}

function formulaAt(text: string, at: number, unclosed: Set<string>): Span | null {
  const sign = text[at]!;
  if (/\s/.test(sign) && text[at + 1] === '[') {
    const square = SQUARE.exec(text.slice(at, at + 256));
    return square === null ? null : { start: at, end: at + square[0].length, text: square[1]! };
  }
  if (sign !== '$' && sign !== '\\' && sign !== '-') return null;
  for (const [open, close, lines] of DELIMITERS) {
    if (unclosed.has(open) || !text.startsWith(open, at) || text[at - 1] === '\\') continue;
    if (open === '$' && /\d/.test(text[at - 1] ?? '')) continue;
    const end = closing(text, at + open.length, close);
    if (end < 0) {
      // There is none further on either, so do not search again.
      unclosed.add(open);
      continue;
    }
    const content = text.slice(at + open.length, end);
    if (content.trim() === '' || (!lines && content.includes('\n'))) continue;
    return { start: at, end: end + close.length, text: content };
  }
  const fraction = BARE_FRACTION.exec(text.slice(at, at + 256));
  return fraction === null ? null : { start: at, end: at + fraction[0].length, text: fraction[0] };
}

function closing(text: string, from: number, close: string): number {
  let end = text.indexOf(close, from);
  while (end > 0 && text[end - 1] === '\\') end = text.indexOf(close, end + 1);
  return end;
}

const CONNECTOR = /^\s*(?:,?\s*and|,?\s*or|,)\s*$/;
const MAX_JOINED = 6;

/** Merges formulas joined by commas, `and` or `or` into one answer. */
export function joinFormulas(text: string, spans: readonly Span[]): Span[] {
  const joined: Span[] = [];
  let count = 0;
  for (const span of spans) {
    const last = joined.at(-1);
    if (
      last !== undefined &&
      count < MAX_JOINED &&
      span.start - last.end < 32 &&
      CONNECTOR.test(text.slice(last.end, span.start))
    ) {
      last.end = span.end;
      last.text += `,${span.text}`;
      count++;
    } else {
      joined.push({ ...span });
      count = 1;
    }
  }
  return joined;
}

const START = /(?:^|[\s=])(?:\*\*)?(?:[$€£¥₹₽₩₪฿]\s?)?(?=[-(.\d])/g;
const RUN = /[\d\s.+\-*×÷/^()]+/y;
/** In order: digits in groups of three, with a point or comma, without an integer part, integers. */
const NUMBER =
  /(-?[1-9]\d{0,2}(?:[ ,]\d{3})+(?:\.\d+)?(?!\d)|-?\d+[.,]\d+|-?\.\d+|-?\d+)(\s*(?:%|[Pp]ercent(?:age)?|[Pp]ct))?/y;
const MAX_RUN = 256;

/** Numbers and arithmetic by where they start; of two from the same place, the longer comes first. */
export function plainExpressions(text: string): Span[] {
  const found: Span[] = [];
  let arithmeticEnd = 0;
  for (const match of text.matchAll(START)) {
    const start = match.index + match[0].length;
    const arithmetic = start < arithmeticEnd ? null : arithmeticAt(text, start);
    if (arithmetic !== null) {
      found.push(arithmetic);
      arithmeticEnd = arithmetic.end;
    }
    const number = numberAt(text, start);
    if (number !== null) found.push(number);
  }
  return found;
}

function arithmeticAt(text: string, start: number): Span | null {
  RUN.lastIndex = start;
  const run = RUN.exec(text)?.[0].slice(0, MAX_RUN);
  if (run === undefined) return null;
  const cut = run.split('\n\n')[0]!.replace(/[\s.+\-*×÷/^(]+$/, '');
  const next = text[start + cut.length] ?? ' ';
  if (!/^-?\(*-?\d/.test(cut) || !/\d[^]*[+\-*×÷/^()]/.test(cut) || !/[.,:\s)$*]/.test(next)) return null;
  return { start, end: start + cut.length, text: cut.replace(/\s+/g, ' ') };
}

function numberAt(text: string, start: number): Span | null {
  NUMBER.lastIndex = start;
  const match = NUMBER.exec(text);
  if (match === null) return null;
  const digits = match[1]!;
  const grouped = /^-?[1-9]\d{0,2}(?:[ ,]\d{3})+(?:\.\d+)?$/.test(digits);
  const value = grouped ? digits.replace(/[ ,]/g, '') : digits.replace(',', '.');
  return { start, end: start + match[0].length, text: match[2] === undefined ? value : `${value}\\%` };
}

const escaped = (word: string): string => word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** Occurrences of the given strings as separate words. */
export function plainStrings(text: string, strings: readonly string[]): Span[] {
  const pattern = new RegExp(
    `(?<=^|\\s)(?:\\*\\*)?(${strings.map(escaped).join('|')})(?=\\*\\*|[.,:\\s]|$)`,
    'g',
  );
  return [...text.matchAll(pattern)].map((match) => ({
    start: match.index + match[0].length - match[1]!.length,
    end: match.index + match[0].length,
    text: match[1]!,
  }));
}
