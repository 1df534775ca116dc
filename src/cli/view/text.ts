/** Wraps prose to the width of the terminal. */

/**
 * `text` in lines of at most `width` characters, broken at spaces; lines after the first are indented. A
 * longer word gets its own line.
 */
export function wrapWords(text: string, width: number, indent = ''): string[] {
  if (text.length <= width) return [text.trimEnd()];
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(/(?<=\S) +/)) {
    const joined = line === '' ? word : `${line} ${word}`;
    if (line === '' || joined.length <= width) {
      line = joined;
      continue;
    }
    lines.push(line.trimEnd());
    line = `${indent}${word}`;
  }
  return [...lines, line.trimEnd()];
}
