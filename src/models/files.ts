/** Reads the files of models, which are untrusted: `../regular-file` with errors that name the file. */
import type { FileHandle } from 'node:fs/promises';
import { AcoerError, errorMessage, whyUnreadable } from '../base/errors';
import * as regular from '../base/regular-file';

/** Limit for JSON files. Those of models have a few kB; an index of 5,000 tensors has half of this. */
const MAX_JSON_BYTES = 1 << 20;

export const badFile = (message: string, cause?: unknown): AcoerError =>
  new AcoerError('BAD_FILE', message, { cause });

/** Opens a regular file for reading and returns it with its size; the caller closes it. @throws BAD_FILE */
export async function openRegularFile(path: string): Promise<{ file: FileHandle; bytes: number }> {
  return regular.openRegularFile(path).catch((cause: unknown) => {
    throw badFile(`cannot open ${path}: ${whyUnreadable(cause)}`, cause);
  });
}

/** Bytes [from, from + count) of `file`. @throws BAD_FILE when the file is shorter */
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
    if (bytesRead === 0) throw badFile(`${path} shrank while it was being read`);
    done += bytesRead;
  }
  return bytes;
}

/** The value in a JSON file. @throws BAD_FILE */
export async function readJson(path: string): Promise<unknown> {
  const text = await regular.readRegularFile(path, MAX_JSON_BYTES).catch((cause: unknown) => {
    throw badFile(`cannot read ${path}: ${whyUnreadable(cause)}`, cause);
  });
  return parseJson(text, path);
}

/** @throws BAD_FILE; `source` names the text in the message */
export function parseJson(text: Buffer, source: string): unknown {
  try {
    return JSON.parse(text.toString('utf8'));
  } catch (cause) {
    // The parser quotes the text, including line ends.
    const why = errorMessage(cause).replace(/\s+/g, ' ');
    throw badFile(`${source} is not valid JSON: ${why}`, cause);
  }
}
