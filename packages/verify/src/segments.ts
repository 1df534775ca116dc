/** Formulas between delimiters, in one pass over the text. */

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
