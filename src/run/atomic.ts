/** Writing so that a file or folder, once its name exists, is whole: temporary name, fsync, rename, fsync of the parent. */
import {
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';

/** Marks what a crash may have left half-written. */
const TEMPORARY_PREFIX = '.tmp-';

/** Forces a file's content, or a folder's list of names, to disk. */
export function syncPath(path: string): void {
  const handle = openSync(path, 'r');
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

const temporaryName = (path: string) =>
  join(dirname(path), `${TEMPORARY_PREFIX}${basename(path)}-${process.pid}`);

/** Writes or replaces `path`; its folder is made where it is missing. */
export function writeFileAtomic(path: string, data: string | Uint8Array): void {
  const temporary = temporaryName(path);
  mkdirSync(dirname(path), { recursive: true });
  try {
    writeFileSync(temporary, data);
    syncPath(temporary);
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
  syncPath(dirname(path));
}

/** JSON with an end of line, atomically. */
export function writeJsonAtomic(path: string, value: unknown): void {
  writeFileAtomic(path, `${JSON.stringify(value, null, 2)}\n`);
}

/**
 * Fills a new folder by `fill` and gives it its name when every file in it is on disk. A folder of that name
 * is replaced.
 */
export async function writeDirectoryAtomic(
  path: string,
  fill: (directory: string) => Promise<void>,
): Promise<void> {
  const temporary = temporaryName(path);
  rmSync(temporary, { recursive: true, force: true });
  mkdirSync(temporary, { recursive: true });
  try {
    await fill(temporary);
    for (const name of readdirSync(temporary)) syncPath(join(temporary, name));
    syncPath(temporary);
    rmSync(path, { recursive: true, force: true });
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { recursive: true, force: true });
    throw error;
  }
  syncPath(dirname(path));
}

/** Removes what a crash left half-written in `directory`. */
export function removeTemporaries(directory: string): void {
  for (const name of readdirSync(directory)) {
    if (name.startsWith(TEMPORARY_PREFIX)) rmSync(join(directory, name), { recursive: true, force: true });
  }
}
