/** Opens a file with the reader for its extension, which `.gz` may follow. */
import type { FileHandle } from 'node:fs/promises';
import { pipeline, Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import type { AcoerError } from '../base/errors';
import { badInput, whyUnreadable } from '../base/errors';
import { checkRegularFile, openRegularFile } from '../base/regular-file';
import { type ParquetFile, parquetRows } from '../parquet';
import { readCsv } from './formats/csv';
import { readJson } from './formats/json';
import { readJsonLines } from './formats/jsonl';
import type { ColumnChoice, RowReader } from './rows';

const FORMAT = /\.(jsonl|ndjson|json|csv|tsv|parquet)(\.gz)?$/i;

/** Whether the name ends in a supported extension. */
export const isDataFile = (name: string): boolean => FORMAT.test(name);

export const FORMAT_NAMES = 'JSON Lines (.jsonl), JSON, CSV, TSV and Parquet, each also as .gz';

/** A failure of the file system or of gunzip, as one sentence. */
function unreadable(file: string, error: unknown): AcoerError {
  return badInput(`Cannot read ${file}: ${whyUnreadable(error)}`, error);
}

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

function readParquet(label: string, file: ParquetFile, choose: ColumnChoice): RowReader {
  return {
    unit: 'row',
    async *rows() {
      let number = 0;
      for await (const values of parquetRows(label, file, choose)) yield { number: ++number, values };
    },
  };
}

/**
 * Opens a data file. Throws BAD_INPUT when it is missing, unreadable or in an unknown format.
 * @param label name of the file in messages
 */
export async function openRows(file: string, label: string, choose: ColumnChoice): Promise<RowReader> {
  const match = FORMAT.exec(file);
  if (match === null) {
    throw badInput(`${label} has an unknown file extension; supported formats are ${FORMAT_NAMES}`);
  }
  const zipped = match[2] !== undefined;
  switch (match[1]!.toLowerCase()) {
    case 'parquet':
      await checkRegularFile(file).catch((error: unknown) => {
        throw unreadable(label, error);
      });
      return readParquet(label, { path: file, zipped }, choose);
    case 'csv':
      return readCsv(label, Readable.from(textChunks(file, label, zipped)), ',', choose);
    case 'tsv':
      return readCsv(label, Readable.from(textChunks(file, label, zipped)), '\t', choose);
    case 'json':
      return readJson(label, textChunks(file, label, zipped));
    default:
      return readJsonLines(label, textChunks(file, label, zipped));
  }
}
