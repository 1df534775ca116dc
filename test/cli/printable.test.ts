/** Hostile text: nothing that a terminal would obey is printed. */
import { printable, printableJson, printableLine, printableMessage } from '../../src/base/printable';
import { processorMs } from '../../src/base/deadline';

const HOSTILE: [what: string, text: string, shown: string][] = [
  ['a colour', 'a\x1b[31mred', 'a\\x1b[31mred'],
  ['a window title', '\x1b]0;owned\x07', '\\x1b]0;owned\\x07'],
  ['a C1 control sequence', '\u009b2J', '\\x9b2J'],
  ['a backspace', 'ab\b\bcd', 'ab\\x08\\x08cd'],
  ['a carriage return', 'good\rbad', 'good\\x0dbad'],
  ['a NUL', 'a\0b', 'a\\x00b'],
  ['a bidirectional override', 'abc\u202edef', 'abc\\u202edef'],
  ['bidirectional isolates', '\u2066x\u2069', '\\u2066x\\u2069'],
  ['a zero-width space', 'a\u200bb', 'a\\u200bb'],
  ['a tag character', 'a\u{e0041}b', 'a\\u{e0041}b'],
  ['a lone surrogate', 'a\ud800b', 'a\\ud800b'],
  ['a line separator', 'a\u2028b', 'a\\u2028b'],
];

// What could still be obeyed: everything but a newline that is a control, a format character or half a pair.
const OBEYED = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u;

test.each(HOSTILE)('%s is shown as an escape', (_, text, shown) => {
  expect(printable(text)).toBe(shown);
  expect(printableLine(text)).toBe(shown);
  expect(printableMessage(text)).toBe(shown);
  expect(OBEYED.test(printable(text))).toBe(false);
});

test.each(HOSTILE)('%s in JSON is escaped and read back as it was', (_, text) => {
  const json = printableJson({ text });
  expect(OBEYED.test(json)).toBe(false);
  expect(JSON.parse(json)).toEqual({ text });
});

test('ordinary text stays: accents, Chinese, Arabic, mathematics, emoji with joiners', () => {
  const text = 'é 日本語 مرحبا ∑x² 👩‍👩‍👧 🇩🇪 ☃️ क्‍ष';
  expect([printable(text), printableLine(text), printableMessage(text)]).toEqual([text, text, text]);
  expect(printableJson(text)).toBe(JSON.stringify(text));
});

test('newlines stay in text of several lines; tabs become spaces', () => {
  expect(printable('a\r\nb\n\tc')).toBe('a\nb\n    c');
  expect(printableLine('a\r\nb\n\tc')).toBe('a\\nb\\n    c');
});

test('a line of a megabyte is shortened in a message, and takes no time', () => {
  const long = 'x\x1b'.repeat(500_000);
  const begun = processorMs();
  const line = printableLine(`${long} end`);
  expect(line.length).toBeLessThan(10_000);
  expect(line).toMatch(/ \.\.\. 998,004 characters \.\.\. .* end$/);
  expect(printableMessage(`first\n${long}`).split('\n')).toHaveLength(2);
  expect(printable(long)).toHaveLength(5 * 500_000);
  expect(processorMs() - begun).toBeLessThan(2000);
});
