/** Parquet, in windows of rows: neither memory nor the event loop carries more than one of them. */
import type { AsyncBuffer, Compressors, FileMetaData } from 'hyparquet' with { 'resolution-mode': 'import' };
import { AcoerError, errorMessage } from '../../errors';
import type { ColumnChoice, RowReader, SourceRow } from '../rows';

const WINDOW_ROWS = 1000;

type Unzip = NonNullable<Compressors[keyof Compressors]>;

export interface ByteSource {
  byteLength: number;
  /** Bytes start to end, end excluded. */
  slice(start: number, end: number): Promise<ArrayBuffer>;
}

/** Windows of one row group read the same column chunks: they are kept until the next group begins. */
class ChunkCache implements AsyncBuffer {
  private readonly chunks = new Map<string, Promise<ArrayBuffer>>();

  constructor(private readonly source: ByteSource) {}

  get byteLength(): number {
    return this.source.byteLength;
  }

  slice(start: number, end = this.byteLength): Promise<ArrayBuffer> {
    const key = `${start}-${end}`;
    const kept = this.chunks.get(key) ?? this.source.slice(start, end);
    this.chunks.set(key, kept);
    return kept;
  }

  clear(): void {
    this.chunks.clear();
  }
}

/** Pages kept unzipped: the dictionary and the page a window ends in, of each of a few columns. */
const KEPT_PAGES = 16;

/** Neighbouring windows ask for the same pages; each is unzipped once. */
function keepingPages(compressors: Compressors): Compressors {
  const kept = new Map<string, { page: Uint8Array; zipped: Uint8Array }>();
  const keeping = (codec: string, unzip: Unzip): Unzip => {
    return (zipped, length) => {
      const key = `${codec} ${zipped.byteOffset} ${zipped.length}`;
      const before = kept.get(key);
      const page = before?.zipped.buffer === zipped.buffer ? before.page : unzip(zipped, length);
      kept.delete(key);
      kept.set(key, { page, zipped });
      if (kept.size > KEPT_PAGES) kept.delete(kept.keys().next().value!);
      return page;
    };
  };
  return Object.fromEntries(
    Object.entries(compressors).map(([codec, unzip]) => [codec, keeping(codec, unzip)]),
  );
}

function badFile(file: string, error: unknown, where = ''): AcoerError {
  return new AcoerError('BAD_INPUT', `Cannot read ${file}${where} as Parquet: ${errorMessage(error)}`, {
    cause: error,
  });
}

/** First and last (excluded) row of each window; none crosses a row group's end. */
function* windows(metadata: FileMetaData): Generator<{ start: number; end: number; opensGroup: boolean }> {
  let groupStart = 0;
  for (const { num_rows } of metadata.row_groups) {
    const groupEnd = groupStart + Number(num_rows);
    for (let start = groupStart; start < groupEnd; start += WINDOW_ROWS) {
      yield { start, end: Math.min(start + WINDOW_ROWS, groupEnd), opensGroup: start === groupStart };
    }
    groupStart = groupEnd;
  }
}

async function* parquetRows(
  file: string,
  source: ByteSource,
  choose: ColumnChoice,
): AsyncGenerator<SourceRow, void> {
  // Both are ES modules only.
  const { parquetMetadataAsync, parquetReadObjects, parquetSchema } = await import('hyparquet');
  const compressors = keepingPages((await import('hyparquet-compressors')).compressors);
  const buffer = new ChunkCache(source);
  const metadata = await parquetMetadataAsync(buffer).catch((error: unknown) => {
    throw badFile(file, error);
  });
  const columns = [...choose(parquetSchema(metadata).children.map(({ element }) => element.name))];
  for (const { start, end, opensGroup } of windows(metadata)) {
    if (opensGroup) buffer.clear();
    const options = { file: buffer, metadata, columns, compressors, rowStart: start, rowEnd: end };
    const rows = await parquetReadObjects(options).catch((error: unknown) => {
      throw badFile(file, error, ` (rows ${start + 1} to ${end})`);
    });
    for (const [i, values] of rows.entries()) yield { number: start + i + 1, values };
  }
}

export function readParquet(file: string, source: ByteSource, choose: ColumnChoice): RowReader {
  return { unit: 'row', rows: () => parquetRows(file, source, choose) };
}
