/** Measures, wraps and cuts text by the columns that it takes on a terminal. */
import stringWidth from 'string-width';

const ASCII = /^[ -~]*$/;
/** Emoji as this Node knows them; the table of the package's last CommonJS version is older. */
const EMOJI = new RegExp('\\p{RGI_Emoji}', 'gv');
const WIDE = '\u65e5';

const segmenter = new Intl.Segmenter('en', { granularity: 'grapheme' });
/** Node's segmenter takes time that grows with the square of a text's length. In UTF-16 units. */
const WINDOW = 1024;

/** What a reader takes for one character each, with where it begins. */
function* graphemes(text: string): Generator<{ segment: string; index: number }> {
  for (let from = 0; from < text.length;) {
    const window = text.slice(from, from + WINDOW);
    const rest = from + window.length < text.length;
    for (const { segment, index } of segmenter.segment(window)) {
      // The last one may continue after the window.
      if (rest && index > 0 && index + segment.length === window.length) break;
      yield { segment, index: from };
      from += segment.length;
    }
  }
}

/** The emoji pattern is so large that V8 may compile it again after each garbage collection. */
const known = new Map<string, number>();
const MOST_KNOWN = 4096;
const LONGEST_KNOWN = 32;

function segmentColumns(segment: string): number {
  if (ASCII.test(segment)) return segment.length;
  const found = known.get(segment);
  if (found !== undefined) return found;
  const columns = stringWidth(segment.replace(EMOJI, WIDE));
  if (segment.length > LONGEST_KNOWN) return columns;
  if (known.size >= MOST_KNOWN) known.clear();
  known.set(segment, columns);
  return columns;
}

/** Columns that plain text takes: two for wide characters and emoji, none for combining marks. */
export function columnsOf(text: string): number {
  if (ASCII.test(text)) return text.length;
  let columns = 0;
  for (const { segment } of graphemes(text)) columns += segmentColumns(segment);
  return columns;
}

/** The longest start of `text` that fits into `width` columns, and the rest. Never splits an emoji. */
function splitAt(text: string, width: number): [start: string, rest: string] {
  if (ASCII.test(text)) return [text.slice(0, Math.max(1, width)), text.slice(Math.max(1, width))];
  let columns = 0;
  for (const { segment, index } of graphemes(text)) {
    columns += segmentColumns(segment);
    // One that is wider than a line gets its own.
    if (columns > width && index > 0) return [text.slice(0, index), text.slice(index)];
  }
  return [text, ''];
}

/** `text` shortened to `width` columns. */
export const cutTo = (text: string, width: number): string =>
  columnsOf(text) <= width ? text : width < 1 ? '' : splitAt(text, width)[0];

/** Each piece follows its gap, or begins a line if the line would be wider than `width` columns. */
function wrapPieces(list: readonly (readonly [gap: string, piece: string])[], width: number, indent: string) {
  const lines: string[] = [];
  let line = '';
  let columns = 0;
  for (const [i, [gap, piece]] of list.entries()) {
    const added = columnsOf(piece);
    if (i > 0 && columns + gap.length + added > width) {
      lines.push(line);
      line = indent + piece;
      columns = indent.length + added;
    } else {
      line += gap + piece;
      columns += gap.length + added;
    }
  }
  return [...lines, line];
}

/** `text` in lines of at most `width` columns, broken at spaces; lines after the first are indented. */
export function wrapWords(text: string, width: number, indent = ''): string[] {
  if (width === Infinity || columnsOf(text) <= width) return [text.trimEnd()];
  const words = [...text.matchAll(/( *)([^ ]+)/g)].map(([, gap, word]) => [gap!, word!] as const);
  return wrapPieces(words, width, indent);
}

/** Fields two spaces apart, broken only between them and, in one that is too long, between its words. */
export function wrapFields(list: readonly string[], width: number, indent = ''): string[] {
  const gapped = list.map((field, i) => [i === 0 ? '' : '  ', field] as const);
  return wrapPieces(gapped, width, indent).flatMap((line) => wrapWords(line, width, indent));
}

/** One line in pieces of at most `width` columns; in linear time, however long it is. */
function pieces(line: string, width: number): string[] {
  const found: string[] = [];
  let rest = line;
  // Sixteen characters a column are enough, also with combining marks.
  for (let next = rest.slice(0, 16 * width); next !== ''; next = rest.slice(0, 16 * width)) {
    const [start] = splitAt(next, width);
    found.push(start);
    rest = rest.slice(start.length);
  }
  return found.length === 0 ? [''] : found;
}

/** The same as `wrapWords`, and words longer than a line are cut, so that no line is wider than `width`. */
export const wrapHard = (text: string, width: number): string[] =>
  width === Infinity ? [text.trimEnd()] : wrapWords(text, width).flatMap((line) => pieces(line, width));
