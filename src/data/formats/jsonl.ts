/** JSON Lines: one object per line. */
import { badInput, errorMessage } from '../../base/errors';
import { MAX_ROW_LENGTH, objectRow, type SourceRow, type SourceRows } from '../rows';

interface Line {
  number: number;
  text: string;
}

/**
 * Lines that are not blank, without line ends. Only LF and CRLF end a line, since U+2028 may occur inside a
 * JSON string. Blank lines count towards the length of the row that follows, so there is an end of them.
 */
async function* splitLines(file: string, chunks: AsyncIterable<string>): AsyncGenerator<Line> {
  let rest: string[] = [];
  let length = 0;
  let number = 1;
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf('\n'); end >= 0; end = chunk.indexOf('\n', start)) {
      length += end + 1 - start;
      // Millions of empty lines are skipped in a moment.
      const text = end === start && rest.length === 0 ? '' : [...rest, chunk.slice(start, end)].join('');
      if (text !== '' && text.trim() !== '') {
        yield { number, text };
        length = 0;
      }
      rest = [];
      [number, start] = [number + 1, end + 1];
    }
    if (start < chunk.length) rest.push(chunk.slice(start));
    length += chunk.length - start;
    if (length > MAX_ROW_LENGTH) {
      const message = `${file} line ${number}: more than ${MAX_ROW_LENGTH} characters without the end of a row`;
      throw badInput(message);
    }
  }
  const text = rest.join('');
  if (text.trim() !== '') yield { number, text };
}

function parseLine({ number, text }: Line): SourceRow {
  try {
    return objectRow('line', number, JSON.parse(text));
  } catch (error) {
    return { unit: 'line', number, problem: `is not valid JSON: ${errorMessage(error)}` };
  }
}

/** Blank lines are skipped but counted. */
export async function* jsonLines(file: string, text: AsyncIterable<string>): SourceRows {
  for await (const line of splitLines(file, text)) yield parseLine(line);
}
