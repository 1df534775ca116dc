/** Making folders under any path a user may give, and forcing names to disk. */
import { closeSync, constants, fsyncSync, mkdirSync, openSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { badInput, errorCode } from './errors';

/** @throws BAD_INPUT if the folder this process works in has been deleted */
export function workingFolder(): string {
  try {
    return process.cwd();
  } catch (cause) {
    if (errorCode(cause) !== 'ENOENT') throw cause;
    throw badInput('The working directory has been deleted; change to another one (cd).', cause);
  }
}

/** A file system that cannot flush a folder, or a folder that may be written but not listed. */
const CANNOT_SYNC = new Set(['EINVAL', 'ENOTSUP', 'EOPNOTSUPP', 'EACCES']);

/** Forces a folder's list of names to disk, where its file system can do that. */
export function syncFolder(path: string): void {
  try {
    // eslint-disable-next-line no-restricted-syntax -- a folder or an error
    const handle = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY);
    try {
      fsyncSync(handle);
    } finally {
      closeSync(handle);
    }
  } catch (error) {
    if (!CANNOT_SYNC.has(errorCode(error) ?? '')) throw error;
  }
}

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;

function makeFolder(path: string): void {
  try {
    mkdirSync(path);
  } catch (cause) {
    if (errorCode(cause) === 'EEXIST' && isFolder(path)) return;
    if (errorCode(cause) !== 'ENOENT') throw cause;
    throw badInput(`No folder can be made in ${dirname(path)}; choose another one.`, cause);
  }
  syncFolder(dirname(path));
}

/**
 * Makes `path` and the missing folders above it; the names of new ones are on disk when this returns.
 * Node's own `recursive: true` loops for ever where the system answers ENOENT although the parent exists, as
 * under /proc and in a deleted folder.
 * @throws BAD_INPUT where there can be no folder; else the system's error
 */
export function makeFolders(path: string): void {
  if (path === '') throw badInput('The name of the folder is empty.');
  const missing: string[] = [];
  for (let folder = resolve(workingFolder(), path); !isFolder(folder); folder = dirname(folder))
    missing.push(folder);
  for (const folder of missing.reverse()) makeFolder(folder);
}
