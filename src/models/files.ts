/**
 * Files that others made: regular ones alone, opened without waiting (a named pipe would wait for whoever writes to
 * it), small ones read up to a bound.
 */
import { constants } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { AcoerError, errorMessage, whyUnreadable } from '../errors';

/** Of a JSON file. Those of models have a few kB; an index of 5,000 tensors has half of it. */
const MAX_JSON_BYTES = 1 << 20;

export const badFile = (message: string, cause?: unknown): AcoerError =>
  new AcoerError('BAD_FILE', message, { cause });

/** A regular file open for reading, and its size; the caller closes it. @throws BAD_FILE */
export async function openRegularFile(path: string): Promise<{ file: FileHandle; bytes: number }> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch((cause: unknown) => {
    throw badFile(`cannot open ${path}: ${whyUnreadable(cause)}`, cause);
  });
  const info = await file.stat();
  if (info.isFile()) return { file, bytes: info.size };
  await file.close();
  throw badFile(`${path} is not a regular file`);
}

/** Bytes [from, from + count) of `file`. @throws BAD_FILE when it ends before */
export async function readBytes(
  file: FileHandle,
  path: string,
  from: number,
  count: number,
): Promise<Buffer> {
  const bytes = Buffer.alloc(count);
  for (let done = 0; done < count;) {
    const { bytesRead } = await file
      .read(bytes, done, count - done, from + done)
      .catch((cause: unknown) =>
        Promise.reject(badFile(`cannot read ${path}: ${errorMessage(cause)}`, cause)),
      );
    if (bytesRead === 0) throw badFile(`${path} became shorter while it was read`);
    done += bytesRead;
  }
  return bytes;
}

/** The value in a JSON file. @throws BAD_FILE */
export async function readJson(path: string): Promise<unknown> {
  const { file, bytes } = await openRegularFile(path);
  try {
    if (bytes > MAX_JSON_BYTES) {
      throw badFile(`${path} has ${bytes} bytes; at most ${MAX_JSON_BYTES} are read of a file of its kind`);
    }
    return parseJson(await readBytes(file, path, 0, bytes), path);
  } finally {
    await file.close();
  }
}

/** @throws BAD_FILE; `source` is how the sentence calls the text */
export function parseJson(text: Buffer, source: string): unknown {
  try {
    return JSON.parse(text.toString('utf8'));
  } catch (cause) {
    // The parser quotes the text, line ends included.
    const why = errorMessage(cause).replace(/\s+/g, ' ');
    throw badFile(`${source} is not valid JSON: ${why}`, cause);
  }
}
