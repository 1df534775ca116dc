/** Ways to write numbers: repeating digits, ordinals, separators, powers of ten. */
import { TEXT_COMMAND } from './lexicon';

/** `12'345'678`. A prime after digits is no separator unless three digits follow. */
const APOSTROPHES = /(?<![\d'’.,])[1-9]\d{0,2}(?:['’]\d{3})+(?![\d'’])/g;
/** The x of `3x10^5`. */
const TIMES = /(\d)(\s?)(?:[xX]|\\(?:text|mathrm)\{ ?[xX] ?\})\s?(?=10\s?(?:\^|\*\*|[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]))/g;
/** `US$ 1250` */
const DOLLARS = /(?<![\w$\\])(?:US|AU|CA|HK|NZ|SG)\s?\\?\$(?=\s?\d)/g;

/** `text` with numbers written as the rest of the verifier reads them. */
export function plainNumbers(text: string): string {
  return text
    .replace(APOSTROPHES, (digits) => digits.replace(/['’]/g, ''))
    .replace(TIMES, '$1$2×$2')
    .replace(DOLLARS, '');
}

const DOT = String.raw`\\(?:dot|overline|bar)`;
const MARKED = [
  new RegExp(String.raw`^(\d*\.\d*)${DOT}\s*\{(\d+)\}(?!\s*\d*\s*${DOT})`),
  // \dot{1}4285\dot{7}
  new RegExp(String.raw`^(\d*\.\d*)\\dot\s*\{?(\d)\}?(\d*)\\dot\s*\{?(\d)\}?`),
  new RegExp(String.raw`^(\d*\.\d*)\\dot\s*(\d)(?!\d*\s*\\dot)`),
  /^(\d*\.\d*)\((\d+)\)(?![\d.])/,
];
const ELLIPSIS = new RegExp(
  String.raw`^(\d*\.(\d+))\s*(?:\\!)?(?:\\[lc]?dots\b|\.\.\.|…|${TEXT_COMMAND}\s*\{\s*(?:\.\.\.|\\[lc]?dots)\s*\})`,
);

/** A repeating decimal as `0.1(6)`, and its length in the text. Dots after digits without a pattern go. */
export function repeatingAt(text: string): { digits: string; length: number } | null {
  for (const pattern of MARKED) {
    const match = pattern.exec(text);
    if (match === null) continue;
    const [all, before, ...repeated] = match;
    return { digits: `${before}(${repeated.join('')})`, length: all.length };
  }
  const match = ELLIPSIS.exec(text);
  if (match === null) return null;
  const [all, number, decimals] = match as unknown as [string, string, string];
  const block = repeatedBlock(decimals);
  const digits = block === 0 ? number : `${number.slice(0, -block)}(${number.slice(-block)})`;
  return { digits, length: all.length };
}

/** Length of the shortest block that ends `digits` twice (a single digit: three times), or 0. */
function repeatedBlock(digits: string): number {
  for (let length = 1; 2 * length <= digits.length; length++) {
    const times = length === 1 ? 3 : 2;
    if (digits.endsWith(digits.slice(-length).repeat(times))) return length;
  }
  return 0;
}

const SUFFIX = '(?:st|nd|rd|th)';
const WORDS = String.raw`${TEXT_COMMAND}\s*\{?\s*`;
const ORDINAL = new RegExp(
  String.raw`^(?:\s*\^\s*\{\s*${WORDS}${SUFFIX}\s*\}?\s*\}|\s*\^\s*\{\s*${SUFFIX}\s*\}|\s*\^\s*${WORDS}${SUFFIX}\s*\}` +
    String.raw`|\s*${WORDS}${SUFFIX}\s*\}|${SUFFIX}(?![a-zA-Z]))`,
);

/** Length of the ordinal ending that `text` begins with, as in `5th` or `5^{\text{th}}`, or 0. */
export function ordinalAt(text: string): number {
  return ORDINAL.exec(text)?.[0].length ?? 0;
}
