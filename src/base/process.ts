/** What tells one process from another, on this machine and others; see proc(5). */
import { readlinkSync } from 'node:fs';
import { errorCode } from './errors';
import { readTextSync } from './regular-file';

/** The result of `read`; null if what it reads does not exist. */
function unlessMissing(read: () => string): string | null {
  try {
    return read();
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ESRCH') return null;
    throw error;
  }
}

/** The start of a process in clock ticks since boot; null if it has ended. Ids are reused, the pair is not. */
export function startTicks(pid: number): string | null {
  const stat = unlessMissing(() => readTextSync(`/proc/${pid}/stat`));
  if (stat === null) return null;
  // The command, in parentheses, may contain spaces.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  // A zombie has ended, but its parent has not reaped it yet.
  return fields[0] === 'Z' ? null : (fields[19] ?? null);
}

/** Identifies this machine since it was started; containers share it. Null without /proc. */
export const bootId = (): string | null =>
  unlessMissing(() => readTextSync('/proc/sys/kernel/random/boot_id').trim());

/** Identifies, on this machine, the container whose process ids this process sees. Null without /proc. */
export const pidNamespace = (): string | null => unlessMissing(() => readlinkSync('/proc/self/ns/pid'));
