/** Opens a file with the reader for its extension, which `.gz` may follow. */
import type { FileHandle } from 'node:fs/promises';
import { pipeline, Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { badInput, unreadable } from '../base/errors';
import { checkRegularFile, openRegularFile } from '../base/regular-file';
import { parquetRows } from '../parquet';
import { csvRows } from './formats/csv';
import { jsonRows } from './formats/json';
import { jsonLines } from './formats/jsonl';
import type { ColumnChoice, SourceRows } from './rows';

const FORMAT = /\.(jsonl|ndjson|json|csv|tsv|parquet)(\.gz)?$/i;

/** Whether the name ends in a supported extension. */
export const isDataFile = (name: string): boolean => FORMAT.test(name);

export const FORMAT_NAMES = 'JSON Lines (.jsonl), JSON, CSV, TSV and Parquet, each also as .gz';

function textStream(file: FileHandle, zipped: boolean): Readable {
  const bytes = file.createReadStream();
  // The last stream of a pipeline gets the error of the first, so the reader sees it there.
  const stream = zipped ? pipeline(bytes, createGunzip(), () => undefined) : bytes;
  return stream.setEncoding('utf8');
}

/** The text without a byte-order mark. Read errors become BAD_INPUT. */
async function* textChunks(path: string, label: string, zipped: boolean): AsyncGenerator<string> {
  let first = true;
  try {
    const { file } = await openRegularFile(path);
    for await (const chunk of textStream(file, zipped) as AsyncIterable<string>) {
      yield first ? chunk.replace(/^\ufeff/, '') : chunk;
      first = false;
    }
  } catch (error) {
    throw unreadable(label, error);
  }
}

async function* parquetFile(path: string, label: string, zipped: boolean, choose: ColumnChoice): SourceRows {
  await checkRegularFile(path).catch((error: unknown) => {
    throw unreadable(label, error);
  });
  let number = 0;
  for await (const values of parquetRows(label, { path, zipped }, choose)) {
    yield { unit: 'row', number: ++number, values };
  }
}

/**
 * The rows of a data file. Throws BAD_INPUT when it is missing, unreadable or in an unknown format.
 * @param label name of the file in messages
 */
export function openRows(file: string, label: string, choose: ColumnChoice): SourceRows {
  const match = FORMAT.exec(file);
  if (match === null) {
    throw badInput(`${label} has an unknown file extension; supported formats are ${FORMAT_NAMES}`);
  }
  const zipped = match[2] !== undefined;
  const text = () => textChunks(file, label, zipped);
  switch (match[1]!.toLowerCase()) {
    case 'parquet':
      return parquetFile(file, label, zipped, choose);
    case 'csv':
      return csvRows(label, Readable.from(text()), ',', choose);
    case 'tsv':
      return csvRows(label, Readable.from(text()), '\t', choose);
    case 'json':
      return jsonRows(label, text());
    default:
      return jsonLines(label, text());
  }
}
