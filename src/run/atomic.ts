/** Writing so that a file or folder, once its name exists, is whole: temporary name, fsync, rename, fsync of the parent. */
import {
  closeSync,
  existsSync,
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
/** Marks a whole folder that makes way for its replacement. */
const REPLACED_PREFIX = '.old-';

/** Forces a file's content, or a folder's list of names, to disk. */
export function syncPath(path: string): void {
  const handle = openSync(path, 'r');
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

const beside = (path: string, name: string) => join(dirname(path), name);
const temporaryName = (path: string) => beside(path, `${TEMPORARY_PREFIX}${basename(path)}-${process.pid}`);
const replacedName = (path: string) => beside(path, `${REPLACED_PREFIX}${basename(path)}`);

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
 * is replaced, and is there whole at any moment under one name or another (`restoreReplaced`).
 */
export async function writeDirectoryAtomic(
  path: string,
  fill: (directory: string) => Promise<void>,
): Promise<void> {
  const temporary = temporaryName(path);
  rmSync(temporary, { recursive: true, force: true });
  try {
    mkdirSync(temporary);
    await fill(temporary);
    for (const name of readdirSync(temporary)) syncPath(join(temporary, name));
    syncPath(temporary);
    if (existsSync(path)) renameSync(path, replacedName(path));
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { recursive: true, force: true });
    throw error;
  }
  syncPath(dirname(path));
  rmSync(replacedName(path), { recursive: true, force: true });
}

/** Removes a folder so that a crash leaves all of it or nothing under its name. */
export function removeDirectoryAtomic(path: string): void {
  const temporary = temporaryName(path);
  renameSync(path, temporary);
  rmSync(temporary, { recursive: true, force: true });
}

/**
 * Removes what a crash left half-written in `directory`; a folder that was about to be replaced gets its name back.
 * @param file only what was to become this file
 */
export function removeTemporaries(directory: string, file = ''): void {
  for (const name of readdirSync(directory)) {
    if (!name.slice(TEMPORARY_PREFIX.length).startsWith(file)) continue;
    const path = join(directory, name);
    const original = join(directory, name.slice(REPLACED_PREFIX.length));
    if (name.startsWith(REPLACED_PREFIX) && !existsSync(original)) renameSync(path, original);
    else if (name.startsWith(TEMPORARY_PREFIX) || name.startsWith(REPLACED_PREFIX)) {
      rmSync(path, { recursive: true, force: true });
    }
  }
}
