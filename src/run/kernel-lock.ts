/**
 * A lock on an open file, kept by the kernel: it ends with the process that holds it, however that ends, is
 * seen from every container of the machine, and over network file systems that have locks from every machine.
 */
import { constants } from 'node:os';
import { getSystemErrorName } from 'node:util';
import { loadAddonFile } from '../base/addon';
import { errorCode } from '../base/errors';

/** native/lock/lock.cpp. Both return 0 or an errno. */
interface NativeLocks {
  tryLock(descriptor: number): number;
  testLock(descriptor: number): number;
}

const { EAGAIN, EACCES, EINVAL, ENOLCK, ENOSYS, EOPNOTSUPP } = constants.errno;

let loaded: NativeLocks | undefined;
const native = (): NativeLocks =>
  (loaded ??= loadAddonFile('lock', 'the addon for file locks') as NativeLocks);

function answer(errno: number): 'free' | 'held' | 'unsupported' {
  if (errno === 0) return 'free';
  if (errno === EAGAIN || errno === EACCES) return 'held';
  if ([EINVAL, ENOLCK, ENOSYS, EOPNOTSUPP].includes(errno)) return 'unsupported';
  const name = getSystemErrorName(-errno);
  throw Object.assign(new Error(`${name}: the file cannot be locked`), { code: name });
}

/**
 * Locks an open file until it is closed.
 * @returns `free`: it is ours now; `held`: another open file has it; `unsupported`: this file system has no
 * locks
 * @throws LOAD_FAILED if the addon is not built
 */
export const takeKernelLock = (descriptor: number) => answer(native().tryLock(descriptor));

/** Whether another open file has the lock. Also `unsupported` where the addon is not built: reading needs none. */
export function testKernelLock(descriptor: number): 'free' | 'held' | 'unsupported' {
  try {
    return answer(native().testLock(descriptor));
  } catch (error) {
    if (errorCode(error) === 'LOAD_FAILED') return 'unsupported';
    throw error;
  }
}
