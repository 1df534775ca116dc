/** Which paths may be served: those inside the watched folder, wherever links lead. */
import { realpath } from 'node:fs/promises';
import { sep } from 'node:path';
import { errorCode } from '../errors';

/** The real path of `path` if it exists and lies within `root`, itself a real path; otherwise null. */
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

/** Whether a file of a run may be read: it does not exist, or lies in the run's folder. */
export async function mayRead(runPath: string, path: string): Promise<boolean> {
  try {
    await realpath(path);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return true;
  }
  return (await insidePath(runPath, path)) !== null;
}
