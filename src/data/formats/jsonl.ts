/** JSON Lines: one object per line. */
import { AcoerError, errorMessage } from '../../errors';
import { MAX_ROW_LENGTH, objectRow, type RowReader, type SourceRow } from '../rows';

/** Lines without line ends. Only LF and CRLF end a line, since U+2028 may occur inside a JSON string. */
async function* splitLines(file: string, chunks: AsyncIterable<string>): AsyncGenerator<string> {
  let rest: string[] = [];
  let length = 0;
  let number = 1;
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf('\n'); end >= 0; end = chunk.indexOf('\n', start)) {
      rest.push(chunk.slice(start, end));
      yield rest.join('');
      rest = [];
      [length, number, start] = [0, number + 1, end + 1];
    }
    if (start < chunk.length) rest.push(chunk.slice(start));
    length += chunk.length - start;
    if (length > MAX_ROW_LENGTH) {
      throw new AcoerError('BAD_INPUT', `${file} line ${number} is longer than ${MAX_ROW_LENGTH} characters`);
    }
  }
  if (rest.length > 0) yield rest.join('');
}

function parseLine(number: number, line: string): SourceRow {
  try {
    return objectRow(number, JSON.parse(line));
  } catch (error) {
    return { number, problem: `is not valid JSON: ${errorMessage(error)}` };
  }
}

/** Blank lines are skipped but counted. */
export function readJsonLines(file: string, text: AsyncIterable<string>): RowReader {
  return {
    unit: 'line',
    async *rows() {
      let number = 0;
      for await (const line of splitLines(file, text)) {
        number++;
        if (line.trim() !== '') yield parseLine(number, line);
      }
    },
  };
}
