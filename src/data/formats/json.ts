/** A JSON file: a list of objects, or JSON Lines named .json, as in data sets on the hub. */
import { JSONParser } from '@streamparser/json';
import { badInput, errorMessage } from '../../base/errors';
import { MAX_ROW_LENGTH, objectRow, type SourceRow, type SourceRows } from '../rows';
import { jsonLines } from './jsonl';

/** The same stream, and its first non-whitespace character. */
async function peek(
  chunks: AsyncIterable<string>,
): Promise<{ first: string; all: () => AsyncGenerator<string> }> {
  const source = chunks[Symbol.asyncIterator]();
  const seen: string[] = [];
  let first = '';
  while (first === '') {
    const next = await source.next();
    if (next.done === true) break;
    seen.push(next.value);
    first = next.value.trimStart().slice(0, 1);
  }
  return {
    first,
    async *all() {
      try {
        yield* seen;
        for (let next = await source.next(); next.done !== true; next = await source.next()) yield next.value;
      } finally {
        // A reader that stops early leaves the file open otherwise.
        await source.return?.();
      }
    },
  };
}

async function* listRows(file: string, chunks: AsyncIterable<string>): SourceRows {
  const parser = new JSONParser({ paths: ['$.*'], keepStack: false });
  let number = 0;
  let found: SourceRow[] = [];
  parser.onValue = ({ value }) => {
    found.push(objectRow('row', ++number, value));
  };
  const guarded = (step: () => void) => {
    try {
      step();
    } catch (error) {
      throw badInput(`${file} is not valid JSON after row ${number}: ${errorMessage(error)}`, error);
    }
  };
  let length = 0;
  for await (const chunk of chunks) {
    length += chunk.length;
    guarded(() => {
      if (length > MAX_ROW_LENGTH) throw new Error(`a row is longer than ${MAX_ROW_LENGTH} characters`);
      parser.write(chunk);
    });
    if (found.length > 0) length = 0;
    yield* found;
    found = [];
  }
  guarded(() => {
    if (!parser.isEnded) parser.end();
  });
}

export async function* jsonRows(file: string, text: AsyncIterable<string>): SourceRows {
  const { first, all } = await peek(text);
  yield* first === '[' ? listRows(file, all()) : jsonLines(file, all());
}
