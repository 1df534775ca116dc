/** What the content of a text command means: a number, an operator, a formula set as text, or words. */
import { APPROXIMATELY } from './hedges';
import { LETTER_UNITS, TEXT_COMMAND } from './lexicon';
import { namedTime, timeAt } from './times';
import type { Token } from './tokens';
import { UNIT_NAMES } from './vocabulary';

/** A token, or a formula to parse in place of the words. */
export type Meaning = Pick<Token, 't' | 'v'> | { formula: string };

const AND_OR = /^\s*,?\s*(?:and|or|&)\s*,?\s*$/i;
const PERCENT = /^\s*(?:per ?cent|percentage|pct|%|\\%)\s*\.?\s*$/i;
const DEGREE = /^\s*degrees?\s*$/i;
/** Commands for symbols in another font. */
const SYMBOLS = /^(?:math|bold|bm|pmb)/;
/** `5x + 1`, set as text. */
const FORMULA = /^(?=.*\d)(?=.*[-+=^*/<>])(?!.*[a-zA-Z]{2})[\w\s.,+\-*/^=()<>]+$/;
const INNER_TEXT = new RegExp(String.raw`${TEXT_COMMAND}\s*\{([^{}]*)\}`, 'g');

/** The words alone, without commands and without hedges that do not change a value. */
export function textOf(content: string): string {
  return spaced(content).trim().replace(APPROXIMATELY, '');
}

const flat = (content: string): string => content.replace(INNER_TEXT, '$1');
const spaced = (content: string): string => flat(content).replace(/\\!|\\?\$/g, ' ');

/** The meaning of `content`, the argument of the text command `name`. */
export function meaningOf(name: string, content: string): Meaning[] {
  const text = textOf(content);
  // In a formula \! is not a space.
  const formula = flat(content).trim().replace(APPROXIMATELY, '');
  if (AND_OR.test(text)) return [{ t: 'sep', v: text.toLowerCase().includes('or') ? 'or' : 'and' }];
  if (PERCENT.test(text)) return [{ t: 'op', v: '%' }];
  if (DEGREE.test(text)) return [{ t: 'cmd', v: 'degree' }];
  const time = namedTime(text) ?? wholeTime(text);
  if (time !== null) return [{ t: 'time', v: String(time) }];
  const ordinal = /^(?:the )?(\d+)(?:st|nd|rd|th)$/i.exec(text);
  if (ordinal !== null) return [{ t: 'num', v: ordinal[1]! }];
  if (/^[a-zA-Z](?:_\w)?\s*=/.test(text)) return [{ formula }];
  if (/^[\d\s.,:+\-*/^=()[\]]+$/.test(text) || /\\(?:d?frac|sqrt|pi|infty)/.test(text)) return [{ formula }];
  if ((SYMBOLS.test(name) && /^[a-zA-Z]$/.test(text)) || /^[ei]$/.test(text))
    return [{ t: 'letters', v: text }];
  const counted = /^([-+]?\d[\d,]*(?:\.\d+)?)\s+([a-zA-Z][a-zA-Z\s'-]*)$/.exec(text);
  if (counted !== null) return [{ formula: counted[1]! }, { t: 'text', v: counted[2]! }];
  if ((SYMBOLS.test(name) && !/^[a-zA-Z\s.,'-]+$/.test(text)) || FORMULA.test(text)) return [{ formula }];
  return [{ t: 'text', v: spaced(content) }];
}

/** A unit such as `m/s^2` or `N\cdot m`. */
export function isCompoundUnit(text: string): boolean {
  if (!/^[a-zA-Z]+(?:[\s*/^{}()-]|\\cdot|[a-zA-Z]|\d)*$/.test(text) || !/[/^*]|\\cdot/.test(text))
    return false;
  const names = text.replace(/\\cdot/g, ' ').match(/[a-zA-Z]+/g) ?? [];
  return names.every((name) => LETTER_UNITS.has(name) || UNIT_NAMES.has(name.toLowerCase()));
}

function wholeTime(text: string): number | null {
  const time = timeAt(text);
  return time !== null && time.length === text.length ? time.minutes : null;
}
