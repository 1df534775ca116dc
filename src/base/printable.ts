/** The one place that decides which characters of data, models, hubs and files a terminal or a page may get. */
import { grouped } from './text';

/**
 * Control and format characters (escape sequences, C1 controls, bidirectional overrides), lone surrogates, line and
 * paragraph separators. The joiners of emoji and of Indic scripts are format characters, too, but stay.
 */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
const JOINERS = new Set(['\u200c', '\u200d']);

/** Longest line taken over from elsewhere into a message, in characters. */
const MAX_LINE = 2_000;

const hex = (code: number, digits: number) => code.toString(16).padStart(digits, '0');

/** `\x1b`, `\u202e`, `\u{e0041}`. */
function escapeSequence(character: string): string {
  const code = character.codePointAt(0)!;
  if (code < 0x100) return `\\x${hex(code, 2)}`;
  return code < 0x10000 ? `\\u${hex(code, 4)}` : `\\u{${hex(code, 5)}}`;
}

/** Text of several lines: newlines stay, tabs become spaces, what a terminal would obey is shown as an escape. */
export function printable(text: string): string {
  return text.replaceAll('\r\n', '\n').replace(UNPRINTABLE, (character) => {
    if (character === '\n' || JOINERS.has(character)) return character;
    return character === '\t' ? '    ' : escapeSequence(character);
  });
}

/** The same on one line (`\n` becomes the two characters), shortened in the middle if it is very long. */
export function printableLine(text: string, maximum = MAX_LINE): string {
  const half = Math.floor(maximum / 2);
  const cut = text.length - 2 * half;
  const short =
    text.length <= maximum
      ? text
      : `${text.slice(0, half)} ... ${grouped(cut)} characters ... ${text.slice(-half)}`;
  return printable(short.replaceAll('\r\n', '\n')).replaceAll('\n', '\\n');
}

/** Text of several lines, each shortened if it is very long: for messages, not for what one wants to read. */
export const printableMessage = (text: string): string =>
  text
    .replaceAll('\r\n', '\n')
    .split('\n')
    .map((line) => printableLine(line))
    .join('\n');

/** JSON in which the same characters are escaped: another spelling of the same value. */
export const printableJson = (value: unknown, indent = 0): string =>
  JSON.stringify(value, null, indent).replace(UNPRINTABLE, (character) => {
    // A newline can only be one between the lines of an indented value.
    if (character === '\n' || JOINERS.has(character)) return character;
    return [...Array(character.length).keys()].map((i) => `\\u${hex(character.charCodeAt(i), 4)}`).join('');
  });

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** The same as text or an attribute of HTML or SVG. */
export const escaped = (text: string): string => printable(text).replace(/[&<>"']/g, (c) => ENTITIES[c]!);
