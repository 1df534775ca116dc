/** CSV and TSV with a header line; quoted fields may contain commas, quotes and line ends (RFC 4180). */
import type { Readable } from 'node:stream';
import { parse } from 'csv-parse';
import { AcoerError, badInput, errorMessage } from '../../base/errors';
import { MAX_ROW_LENGTH, type ColumnChoice, type SourceRow, type SourceRows } from '../rows';

interface CsvRecord {
  record: string[];
  /** `lines`: the line the record ends on, from 1. */
  info: { lines: number };
}

function toRow(number: number, header: readonly string[], fields: readonly string[]): SourceRow {
  const place = { unit: 'line', number } as const;
  if (fields.length !== header.length) {
    return { ...place, problem: `has ${fields.length} fields but the header has ${header.length}` };
  }
  // An empty field is a missing value.
  const values = header.map((name, i) => [name, fields[i] === '' ? null : fields[i]] as const);
  return { ...place, values: Object.fromEntries(values) };
}

export async function* csvRows(
  file: string,
  text: Readable,
  delimiter: string,
  choose: ColumnChoice,
): SourceRows {
  const parser = parse({
    delimiter,
    bom: true,
    info: true,
    relax_column_count: true,
    skip_empty_lines: true,
    max_record_size: MAX_ROW_LENGTH,
  });
  // `pipe` does not forward errors.
  text.on('error', (error) => parser.destroy(error));
  text.pipe(parser);
  let header: string[] | null = null;
  let nextLine = 1;
  try {
    for await (const { record, info } of parser as AsyncIterable<CsvRecord>) {
      const number = nextLine;
      nextLine = info.lines + 1;
      if (header === null) {
        header = record.map((name) => name.trim());
        choose(header);
      } else {
        yield toRow(number, header, record);
      }
    }
  } catch (error) {
    if (error instanceof AcoerError) throw error;
    throw badInput(`${file} line ${nextLine}: ${errorMessage(error)}`, error);
  } finally {
    text.destroy();
  }
}
