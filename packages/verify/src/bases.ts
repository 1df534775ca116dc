/** Numbers in a base, however written, become one token: the digits with a subscript. */
import { operator, type Token } from './tokens';

const WORDS =
  'two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen'.split(' ');

/** `2`, `two`, `base 2`, `(base two)`. */
function baseOf(text: string): number | null {
  const name = text.toLowerCase().replace(/[^a-z0-9]+|\bin\b|\bbase\b|base/g, '');
  const base = /^\d{1,2}$/.test(name) ? Number(name) : WORDS.indexOf(name) + 2;
  return base >= 2 && base <= 36 && (base > 2 || /^(?:2|two)$/.test(name)) ? base : null;
}

const isDigits = (token: Token | undefined): boolean =>
  token !== undefined &&
  ((token.t === 'num' && /^[\d.]+$/.test(token.v)) ||
    (token.t === 'letters' && /^[a-zA-Z]{1,12}$/.test(token.v)) ||
    (token.t === 'text' && /^\s*(?:[0-9A-Za-z]*[0-9][0-9A-Za-z]*|[A-Z]{2,12})\s*$/.test(token.v)));

/** A digit above nine, as in `(7\text{A})_{11}`. */
const isLetterDigit = (token: Token | undefined): boolean =>
  token?.t === 'text' && /^\s*[A-Z]\s*$/.test(token.v);

/** Another group of four binary digits, as in `1001\,1100_2`. */
const isBinaryGroup = (tokens: readonly Token[], at: number): boolean =>
  [tokens[at - 1], tokens[at]].every((token) => token?.t === 'num' && /^[01]{4}$/.test(token.v));

/** The digits of one number from `start` on, without any brackets around them. */
function digitsAt(tokens: readonly Token[], start: number): { digits: string; next: number } | null {
  const bracket = { '(': ')', '[': ']', '{': '}' }[tokens[start]?.v ?? ''];
  let at = bracket === undefined ? start : start + 1;
  let digits = '';
  for (; isDigits(tokens[at]) || (digits !== '' && isLetterDigit(tokens[at])); at++) {
    if (digits !== '' && tokens[at]!.space && !isBinaryGroup(tokens, at)) break;
    digits += tokens[at]!.v.trim();
  }
  if (digits === '') return null;
  if (bracket !== undefined) {
    if (tokens[at]?.v !== bracket) return null;
    at++;
  }
  return { digits, next: at };
}

/** The base at `at`: `_2`, `_{16}`, `_{\text{two}}`, `_{(2)}`, `\text{ base } 2`, `\text{(base 2)}`. */
function writtenBase(tokens: readonly Token[], at: number): { base: number; next: number } | null {
  const token = tokens[at];
  if (token?.t === 'text' && /^\s*\(?\s*(?:in\s+)?base\b/i.test(token.v)) {
    const inside = baseOf(token.v);
    if (inside !== null) return { base: inside, next: at + 1 };
    const next = tokens[at + 1];
    const base = next?.t === 'num' ? baseOf(next.v) : null;
    return base === null ? null : { base, next: at + 2 };
  }
  if (token?.t === 'letters' && token.v === 'base') {
    const base = baseOf(tokens[at + 1]?.v ?? '');
    return base === null ? null : { base, next: at + 2 };
  }
  if (token?.v === '(' && /^\s*base\b/i.test(tokens[at + 1]?.v ?? '')) {
    const inside = writtenBase(tokens, at + 1);
    return inside !== null && tokens[inside.next]?.v === ')' ? { ...inside, next: inside.next + 1 } : null;
  }
  if (token?.t !== 'op' || token.v !== '_') return null;
  if (tokens[at + 1]?.v !== '{') {
    const base = baseOf(tokens[at + 1]?.v ?? '');
    return base === null ? null : { base, next: at + 2 };
  }
  let [end, text, depth] = [at + 2, '', 1];
  for (; end < tokens.length && end < at + 10; end++) {
    depth += { '{': 1, '}': -1 }[tokens[end]!.v] ?? 0;
    if (depth === 0) break;
    text += ` ${tokens[end]!.v}`;
  }
  const base = tokens[end]?.v === '}' ? baseOf(text) : null;
  return base === null ? null : { base, next: end + 1 };
}

/** Letters alone are digits only in brackets or with the base in words; `A_{12}` is a name. */
function areDigits(digits: string, base: number, first: Token): boolean {
  const fits = [...digits].every((sign) => sign === '.' || parseInt(sign, 36) < base);
  if (base === 16 && /^[A-F]{2,}$/.test(digits)) return true;
  return /\d/.test(digits)
    ? fits || /^[\d.]+$/.test(digits)
    : fits && digits.length > 1 && first.t !== 'letters';
}

export function joinBases(tokens: readonly Token[]): Token[] {
  const out: Token[] = [];
  for (let at = 0; at < tokens.length;) {
    const first = tokens[at]!;
    const found = digitsAt(tokens, at);
    const written = found && writtenBase(tokens, found.next);
    // A digit in the middle of a name does not start a number.
    const apart = first.space || !isDigits(tokens[at - 1]);
    if (found === null || written === null || !apart || !areDigits(found.digits, written.base, first)) {
      out.push(first);
      at++;
      continue;
    }
    const inWords = tokens[found.next]!.v !== '_';
    out.push(
      { t: 'num', v: found.digits.toUpperCase(), space: first.space, inWords },
      operator('_'),
      operator('{'),
    );
    out.push({ t: 'num', v: String(written.base), space: false }, operator('}'));
    at = written.next;
  }
  return out;
}

/** Digits in capitals, without leading zeros. */
export function plainDigits(digits: string): string {
  return digits.toUpperCase().replace(/^0+(?=[0-9A-Z])/, '');
}
