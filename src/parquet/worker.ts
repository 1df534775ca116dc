/**
 * The worker thread that reads a Parquet file. The format packs thousands of rows, nested lists and lengths
 * into a few bytes, and the decoder trusts them, so the damage that a broken or hostile file does is confined
 * to this thread.
 */
import { promisify } from 'node:util';
import { parentPort } from 'node:worker_threads';
import { gunzip } from 'node:zlib';
import type { AsyncBuffer, Compressors, FileMetaData } from 'hyparquet' with { 'resolution-mode': 'import' };
import { whyUnreadable } from '../base/errors';
import { openRegularFile, readRegularFile } from '../base/regular-file';
import type { FromParquet, ParquetFile, ToParquet } from './index';

const WINDOW_ROWS = 1000;
/** A zipped file can expand to a thousand times its size. */
const MAX_UNZIPPED_BYTES = 2 ** 31;

type Unzip = NonNullable<Compressors[keyof Compressors]>;

const wholeBuffer = (bytes: Buffer): ArrayBuffer =>
  bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer;

interface Source {
  bytes: AsyncBuffer;
  close: () => Promise<void>;
}

/** Parquet is read from its end, so a zipped file must be unzipped completely. */
async function openSource({ path, zipped }: ParquetFile): Promise<Source> {
  if (zipped) {
    const bytes = await promisify(gunzip)(await readRegularFile(path, MAX_UNZIPPED_BYTES), {
      maxOutputLength: MAX_UNZIPPED_BYTES,
    });
    const slice = (start: number, end?: number) => Promise.resolve(wholeBuffer(bytes.subarray(start, end)));
    return { bytes: { byteLength: bytes.byteLength, slice }, close: () => Promise.resolve() };
  }
  const { file, bytes: size } = await openRegularFile(path);
  const slice = async (start: number, end = size) => {
    if (start === end) return new ArrayBuffer(0);
    const parts: Buffer[] = [];
    const bytes = file.createReadStream({ start, end: end - 1, highWaterMark: 1 << 20, autoClose: false });
    for await (const part of bytes as AsyncIterable<Buffer>) parts.push(part);
    return wholeBuffer(Buffer.concat(parts));
  };
  return { bytes: { byteLength: size, slice }, close: () => file.close() };
}

/**
 * Number of unzipped pages to keep: for each of a few columns, the dictionary and the page a window ends in.
 */
const KEPT_PAGES = 16;

/** Unzips each page once, although neighbouring windows ask for the same pages. */
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

/** First row and end (exclusive) of each window; none crosses the end of a row group. */
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

type Rows = Record<string, unknown>[];

async function* rowWindows(
  source: AsyncBuffer,
  metadata: FileMetaData,
  columns: string[],
): AsyncGenerator<Rows, void> {
  const { cachedAsyncBuffer, parquetReadObjects } = await import('hyparquet');
  const compressors = keepingPages((await import('hyparquet-compressors')).compressors);
  let file = source;
  for (const { start, end, opensGroup } of windows(metadata)) {
    // Windows of one row group read the same column chunks, which are kept until the next group begins.
    if (opensGroup) file = cachedAsyncBuffer(source, { minSize: 0 });
    const options = { file, metadata, columns, compressors, rowStart: start, rowEnd: end };
    const rows = await parquetReadObjects(options).catch((error: unknown) => {
      throw new Error(`rows ${start + 1} to ${end}: ${whyUnreadable(error)}`, { cause: error });
    });
    // A missing value is null; undefined means the decoder ran past the end of the data.
    const missing = rows.findIndex((row) => columns.some((name) => row[name] === undefined));
    if (missing >= 0 || rows.length !== end - start) {
      throw new Error(`its data ends before row ${start + Math.max(missing, 0) + 1}`);
    }
    yield rows;
  }
}

const port = parentPort!;
const post = (message: FromParquet) => port.postMessage(message);

interface OpenFile {
  source: Source;
  metadata: FileMetaData;
  rows: AsyncGenerator<Rows, void> | null;
}

async function open(file: ParquetFile): Promise<OpenFile> {
  // Both libraries are ES modules.
  const { parquetMetadataAsync, parquetSchema } = await import('hyparquet');
  const source = await openSource(file);
  const metadata = await parquetMetadataAsync(source.bytes);
  post({ type: 'columns', names: parquetSchema(metadata).children.map(({ element }) => element.name) });
  return { source, metadata, rows: null };
}

/** The file that is being read. After a failure the thread is ended with it. */
let current: OpenFile | null = null;

async function answer(message: ToParquet): Promise<void> {
  if (message.type === 'open') {
    current = await open(message.file);
    return;
  }
  const file = current!;
  file.rows ??= rowWindows(file.source.bytes, file.metadata, message.columns);
  const { value } = await file.rows.next();
  if (value !== undefined) return post({ type: 'rows', rows: value });
  current = null;
  await file.source.close();
  post({ type: 'end' });
}

port.on('message', (message: ToParquet) => {
  answer(message).catch((error: unknown) => post({ type: 'failed', message: whyUnreadable(error) }));
});
