/** Which paths may be served: those inside the watched folder, wherever links lead. */
import { realpath, stat } from 'node:fs/promises';
import { sep } from 'node:path';
import { errorCode } from '../base/errors';

/** The real path of `path` if it exists and is within `root`, itself a real path; otherwise null. */
export async function insidePath(root: string, path: string): Promise<string | null> {
  try {
    const real = await realpath(path);
    return real === root || real.startsWith(root.endsWith(sep) ? root : root + sep) ? real : null;
  } catch (error) {
    const code = errorCode(error);
    if (code !== undefined && ['ENOENT', 'ENOTDIR', 'ELOOP', 'EACCES'].includes(code)) return null;
    throw error;
  }
}

/** Settings, summaries and lists have some KB. */
export const MOST_JSON_BYTES = 16 * 1024 * 1024;

/** Whether a file of a run may be read: it does not exist, or is in the run's folder and is not too large. */
export async function mayRead(runPath: string, path: string, mostBytes = Infinity): Promise<boolean> {
  try {
    await realpath(path);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return true;
  }
  const real = await insidePath(runPath, path);
  return real !== null && (await stat(real)).size <= mostBytes;
}
