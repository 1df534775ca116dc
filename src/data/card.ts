/** A data set's README.md, whose first lines may say which files belong to which split. */
import { AcoerError, whyUnreadable } from '../base/errors';
import { readRegularFile } from '../base/regular-file';

const MAX_BYTES = 1 << 22;

/** @throws BAD_INPUT naming the file */
export async function readCard(path: string): Promise<string> {
  try {
    return (await readRegularFile(path, MAX_BYTES)).toString('utf8');
  } catch (cause) {
    throw new AcoerError('BAD_INPUT', `Cannot read ${path}: ${whyUnreadable(cause)}`, { cause });
  }
}
