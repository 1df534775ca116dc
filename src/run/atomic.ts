/** Atomic writes: whatever has its name is complete (temporary name, fsync, rename, fsync the parent). */
import {
  closeSync,
  existsSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { makeFolders, syncFolder } from '../base/folders';
import { openRegularFileSync } from '../base/regular-file';

/** Prefix of what a crash may have left half-written. */
export const TEMPORARY_PREFIX = '.tmp-';
/** Prefix of a complete folder that is about to be replaced. */
const REPLACED_PREFIX = '.old-';

/** Names that `temporaryName` and `replacedName` make; others are somebody else's. */
const OWN_NAME = /^(\.tmp-.+-\d+|\.old-(final|step-\d{6,}))$/;

/** Flushes a file's content to disk. */
function syncFile(path: string): void {
  const handle = openRegularFileSync(path);
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

const beside = (path: string, name: string) => join(dirname(path), name);
/** What becomes `path`; of this process. */
export const temporaryName = (path: string) =>
  beside(path, `${TEMPORARY_PREFIX}${basename(path)}-${process.pid}`);
const replacedName = (path: string) => beside(path, `${REPLACED_PREFIX}${basename(path)}`);

/**
 * Writes or replaces `path`, creating its folder if needed.
 * @param temporary where the data is written first, on the same file system
 * @param mode permissions of a new file, less the umask
 */
export function writeFileAtomic(
  path: string,
  data: string | Uint8Array,
  temporary = temporaryName(path),
  mode = 0o666,
): void {
  makeFolders(dirname(path));
  try {
    // Never through a link that has the name.
    rmSync(temporary, { force: true });
    writeFileSync(temporary, data, { mode, flag: 'wx' });
    syncFile(temporary);
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
  syncFolder(dirname(path));
}

/** Appends all of `data` to an open file, or nothing: a nearly full disk may take a part of it. */
export function appendWhole(handle: number, data: Buffer): void {
  const { size } = fstatSync(handle);
  try {
    for (let done = 0; done < data.length;) done += writeSync(handle, data, done);
  } catch (error) {
    ftruncateSync(handle, size);
    throw error;
  }
}

/** What a JSON file of a run holds. */
export const jsonText = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;

export function writeJsonAtomic(path: string, value: unknown): void {
  writeFileAtomic(path, jsonText(value));
}

/**
 * Calls `fill` on a new folder and renames the folder to `path` once every file in it is on disk. An existing
 * folder is replaced; at any moment it is complete under one name or the other (`restoreReplaced`).
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
    for (const name of readdirSync(temporary)) syncFile(join(temporary, name));
    syncFolder(temporary);
    if (existsSync(path)) renameSync(path, replacedName(path));
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { recursive: true, force: true });
    throw error;
  }
  syncFolder(dirname(path));
  rmSync(replacedName(path), { recursive: true, force: true });
}

/** Removes a folder so that after a crash either all of it or nothing exists under its name. */
export function removeDirectoryAtomic(path: string): void {
  const temporary = temporaryName(path);
  renameSync(path, temporary);
  // Otherwise its files may be gone from the disk before its name is.
  syncFolder(dirname(path));
  rmSync(temporary, { recursive: true, force: true });
}

/**
 * Removes what a crash left half-written in `directory`; a folder that was about to be replaced gets its name
 * back.
 * @param file only remove what was going to become this file
 */
export function removeTemporaries(directory: string, file = ''): void {
  for (const name of readdirSync(directory)) {
    if (!OWN_NAME.test(name) || !name.slice(TEMPORARY_PREFIX.length).startsWith(file)) continue;
    const path = join(directory, name);
    const original = join(directory, name.slice(REPLACED_PREFIX.length));
    if (name.startsWith(REPLACED_PREFIX) && !existsSync(original)) renameSync(path, original);
    // If it is a link, the link itself.
    else rmSync(path, { recursive: true, force: true });
  }
}
