/** Numbers, arithmetic and given strings in plain text. */
import type { Span } from './segments';

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
