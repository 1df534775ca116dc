/** JSON Lines: one object a line. */
import { errorMessage } from '../../errors';
import { objectRow, type RowReader, type SourceRow } from '../rows';

/** Lines without their ends. Only LF and CRLF end a line: U+2028 may stand inside a JSON string. */
async function* splitLines(chunks: AsyncIterable<string>): AsyncGenerator<string> {
  let rest: string[] = [];
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf('\n'); end >= 0; end = chunk.indexOf('\n', start)) {
      rest.push(chunk.slice(start, end));
      yield rest.join('');
      rest = [];
      start = end + 1;
    }
    if (start < chunk.length) rest.push(chunk.slice(start));
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

/** Blank lines are passed over but counted. */
export function readJsonLines(text: AsyncIterable<string>): RowReader {
  return {
    unit: 'line',
    async *rows() {
      let number = 0;
      for await (const line of splitLines(text)) {
        number++;
        if (line.trim() !== '') yield parseLine(number, line);
      }
    },
  };
}
