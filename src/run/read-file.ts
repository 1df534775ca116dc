/** Reads a file of a run; whatever else has its name is named in the error. */
import { AcoerError, whyUnreadable } from '../base/errors';
import { readRegularFileSync } from '../base/regular-file';

/** `cause` with the name of the file that could not be read. */
export const unreadable = (path: string, cause: unknown): AcoerError =>
  new AcoerError('BAD_INPUT', `Cannot read ${path}: ${whyUnreadable(cause)}`, { cause });

/** @throws BAD_INPUT naming `path` */
export function readRunFile(path: string, limit: number): Buffer {
  try {
    return readRegularFileSync(path, limit);
  } catch (cause) {
    throw unreadable(path, cause);
  }
}
