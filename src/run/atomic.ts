/**
 * Writes files: whole or not at all (temporary name, fsync, rename, fsync the parent), by appending, and with patience on
 * a disk that may be full, read-only or gone.
 */
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
  lstatSync,
  readSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { makeFolders, syncFolder } from '../base/folders';
import { openRegularFileSync, openToAppend } from '../base/regular-file';
import { AcoerError, errorMessage, whyUnwritten, writeErrorCode } from '../base/errors';

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

/**
 * Calls `fill` with a path in a new folder beside `path`, and renames the file that it writes there to `path`, which must
 * not exist, once it is on disk.
 */
export async function writeLargeFileAtomic(
  path: string,
  fill: (temporary: string) => Promise<void>,
): Promise<void> {
  const folder = temporaryName(path);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  try {
    const temporary = join(folder, basename(path));
    await fill(temporary);
    syncFile(temporary);
    renameSync(temporary, path);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  syncFolder(dirname(path));
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

export class AppendedFile {
  private readonly handle: number;
  private bytes: number;

  /** Creates the file if need be. @throws the system's error, also for a link or for what is no regular file */
  constructor(readonly path: string) {
    this.handle = openToAppend(path);
    this.bytes = fstatSync(this.handle).size;
  }

  private holdsAll(): boolean {
    return fstatSync(this.handle).size === this.bytes;
  }

  /** Whether the path still names this file, with what was written and nothing else. */
  isIntact(): boolean {
    const ours = fstatSync(this.handle, { bigint: true });
    const there = lstatSync(this.path, { bigint: true, throwIfNoEntry: false });
    return there?.ino === ours.ino && there.dev === ours.dev && this.holdsAll();
  }

  /** What was written, even if the path names another file now; null: it was cut or written to by others. */
  content(): Buffer | null {
    if (!this.holdsAll()) return null;
    const content = Buffer.alloc(this.bytes);
    for (let done = 0; done < content.length;) {
      const count = readSync(this.handle, content, done, content.length - done, done);
      if (count === 0) return null;
      done += count;
    }
    return content;
  }

  /** Appends all of `data`, or nothing. */
  append(data: Buffer): void {
    appendWhole(this.handle, data);
    this.bytes += data.length;
  }

  /** Flushes the file to disk. */
  sync(): void {
    fsyncSync(this.handle);
  }

  close(): void {
    closeSync(this.handle);
  }
}

export interface Patience {
  /** Time between two attempts on a full disk. */
  retryMs: number;
  /** Time on a full disk after which the run ends. */
  giveUpMs: number;
}

export const PATIENCE: Patience = { retryMs: 5_000, giveUpMs: 600_000 };

/** Whether `error` says that there is no space. */
export const isFull = (error: unknown) => ['ENOSPC', 'EDQUOT'].includes(writeErrorCode(error) ?? '');

/** Wraps `error` from writing `what` in one sentence; returns errors that are not disk failures unchanged. */
function writeFailure(what: string, error: unknown): unknown {
  if (writeErrorCode(error) === undefined) return error;
  const why = `${whyUnwritten(error)} (${errorMessage(error)})`;
  return new AcoerError('WRITE_FAILED', `Cannot write ${what}: ${why}.`, { cause: error });
}

/**
 * Calls `write`, which must be safe to repeat. While the disk is full the run waits, because nothing is lost
 * as long as its state is in memory; any other failure ends it.
 * @param signal ends the wait
 * @throws WRITE_FAILED
 */
export async function writePatiently<T>(
  what: string,
  write: () => T | Promise<T>,
  { retryMs, giveUpMs }: Patience,
  warn: (message: string) => void,
  signal: AbortSignal,
): Promise<T> {
  const begun = performance.now();
  for (let attempt = 1; ; attempt++) {
    try {
      return await write();
    } catch (error) {
      const waited = performance.now() - begun;
      if (!isFull(error) || signal.aborted || waited >= giveUpMs) throw writeFailure(what, error);
      if (attempt === 1) {
        const minutes = Math.ceil(giveUpMs / 60_000);
        warn(`Cannot write ${what}: the disk is full. The run will wait up to ${minutes} minutes for space.`);
      }
      // Aborted: try one last time, so that the error says what is wrong.
      await wait(retryMs, undefined, { signal }).catch(() => undefined);
    }
  }
}
