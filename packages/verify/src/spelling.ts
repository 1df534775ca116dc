/**
 * Spellings with the same meaning are unified before anything else looks at an answer: layout commands go,
 * every kind of space becomes a space, Unicode signs become commands. Numbers, words and brackets stay.
 */
import { COLOURS, DRAWING, FONTS, PHANTOMS, SPACING, TEXT_COMMAND } from './lexicon';
import { withoutEmphasis } from './markup';
import { plainUnicode, UNICODE } from './unicode';

/** `\\`, a command, an escaped sign, or a non-breaking space. */
const COMMANDS = /\\\\|\\([a-zA-Z]+)|\\([^a-zA-Z])|~(?!=)/g;
/** The width of a space: `{1cm}`, ` 3mu`. */
const WIDTH = /\*?\s*(?:\{[^{}]{0,32}\}|-?[\d.]+\s*(?:mu|pt|em|ex|mm|cm|in|sp|bp|pc)\b)?/y;
/** The argument of a colour command: `{red}`, `[HTML]{ff0000}`. */
const ARGUMENT = /\s*(?:\[[^\]]{0,16}\])?\s*\{[^{}]{0,32}\}/y;
/** The scope of a font command: `\rm cm}` up to the closing brace. */
const IN_FONT = /\s*([^{}\\$&]+)(?=\}|$)/y;
const OPTION = /\s*\[[^\]]{0,64}\]/y;
const OPENS = /\s*\{/y;
/** Braces that only group: `{f}^{-1}`, `0{.}3`, `{\pm}10`, `{-}5`, `0.{\overline{8}}`. */
const LOOSE_BRACES =
  /(?<![\w}\]^])\{(?:[a-zA-Z](?=\}\s*[(^])|(?:\\[a-zA-Z]+|[-+=<>])\s*)\}|\{(?:\.|\\overline\{\d+\})\}/g;
/** `{}` where it is not an argument. */
const EMPTY_BRACES = /(?<![a-zA-Z}\]\\])\{\}/g;
/** `\mathop{\mathrm{lcm}}` */
const OPERATOR = new RegExp(String.raw`\\mathop\s*\{\s*(${TEXT_COMMAND}\s*\{\w{1,16}\})\s*\}`, 'g');
/** An exponent set as text: `12.5\text{e}6`. */
const EXPONENT = new RegExp(String.raw`(\d)\s*${TEXT_COMMAND}\s*\{\s*[eE]\s*\}\s*(?=[-+]?\d)`, 'g');
const NO_DELIMITER = /\./y;
const STAR = /\*/y;

/** `text` in its plain spelling, in time linear in its length. */
export function plainSpelling(text: string): string {
  const plain = unescaped(withCommands(plainUnicode(withoutEmphasis(text))))
    .replace(EMPTY_BRACES, '')
    .replace(OPERATOR, '$1')
    .replace(/\{(\d+)\}\.\{(\d+)\}/g, '$1.$2')
    .replace(LOOSE_BRACES, withoutBraces)
    .replace(EXPONENT, '$1e');
  let out = '';
  let at = 0;
  const take = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = at;
    const found = pattern.exec(plain);
    at += found?.[0].length ?? 0;
    return found;
  };
  for (const match of plain.matchAll(COMMANDS)) {
    if (match.index < at) continue;
    out += plain.slice(at, match.index);
    at = match.index + match[0].length;
    out += match[1] === undefined ? sign(match[0]) : command(match[1], take);
  }
  return out + plain.slice(at);
}

/** The content of the braces; a space keeps a name apart from a letter that follows. */
function withoutBraces(braced: string): string {
  const inner = braced.slice(1, -1);
  return /[a-zA-Z]$/.test(inner) ? `${inner} ` : inner;
}

const sign = (all: string): string => (/^(?:~|\\[,;:>\s])$/.test(all) ? ' ' : all);

/** The replacement of a command; `take` consumes what follows it. */
function command(name: string, take: (pattern: RegExp) => RegExpExecArray | null): string {
  if (SPACING.has(name)) {
    take(WIDTH);
    return ' ';
  }
  if (COLOURS.has(name) || PHANTOMS.has(name)) {
    take(ARGUMENT);
    if (name === 'fcolorbox') take(ARGUMENT);
    return '';
  }
  if (FONTS.has(name)) {
    const words = take(IN_FONT);
    if (words !== null) return `\\mathrm{${words[1]!}}`;
    return take(OPENS) === null ? '' : '\\mathrm{';
  }
  if (name === 'bbox') {
    take(OPTION);
    return '';
  }
  if (name === 'left' || name === 'right' || name === 'middle') take(NO_DELIMITER);
  if (name === 'operatorname') take(STAR);
  return DRAWING.has(name) ? '' : `\\${name}`;
}

function withCommands(text: string): string {
  return text.replace(/[^\x20-\x7e\n\t]/g, (sign) => {
    const known = UNICODE.get(sign);
    if (known === undefined) return /\s/.test(sign) ? ' ' : sign;
    // Keep the command apart from a letter that follows.
    return known.length > 1 ? `${known} ` : known;
  });
}

/** Badly escaped text doubles its backslashes. Rows end with two, so all of them are doubled or none. */
function unescaped(doubled: string): string {
  const text = doubled.replaceAll('\\\\\\\\', '\\\\');
  if (!text.includes('\\begin')) return text.replace(/\\\\(?=[a-zA-Z({[)\]}])/g, '\\');
  return text.includes('\\\\begin') ? text.replace(/\\\\/g, '\\') : text;
}
