/**
 * The lock of a run: `lock.json` records the process that writes it, its host and its start. A lock whose
 * process has ended is taken over. Process ages come from the kernel's counters, not from the clock, which
 * may jump.
 */
import {
  constants,
  copyFileSync,
  existsSync,
  linkSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { readFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { AcoerError, errorCode } from '../errors';

export const LOCK_FILE = 'lock.json';

export interface LockOwner {
  pid: number;
  host: string;
  /** Start of the process, in clock ticks since boot. */
  startTicks: string;
  /** Identifies this boot of the machine. */
  boot: string;
  /** Time of locking, for people. */
  since: string;
}

/**
 * A process's start in ticks since boot; null: the process is gone. It is field 22 of /proc/PID/stat, the
 * 20th after the name in parentheses.
 */
function startTicks(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    // A zombie has ended, but its parent has not reaped it yet.
    return fields[0] === 'Z' ? null : fields[19]!;
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ESRCH') return null;
    throw error;
  }
}

const bootId = () => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();

function thisProcess(): LockOwner {
  return {
    pid: process.pid,
    host: hostname(),
    startTicks: startTicks(process.pid)!,
    boot: bootId(),
    since: new Date().toISOString(),
  };
}

/** null: no lock, or one that a system crash left empty. */
function readOwner(path: string): LockOwner | null {
  try {
    const owner = JSON.parse(readFileSync(path, 'utf8')) as Partial<LockOwner> | null;
    return typeof owner?.pid === 'number' && typeof owner.host === 'string' ? (owner as LockOwner) : null;
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || error instanceof SyntaxError) return null;
    throw error;
  }
}

/** Processes on another machine cannot be checked, so they count as running. */
function isRunning(owner: LockOwner): boolean {
  if (owner.host !== hostname()) return true;
  return owner.boot === bootId() && startTicks(owner.pid) === owner.startTicks;
}

/** Whether a process writes to `directory`, has left its lock there when it died, or neither. */
export function lockState(directory: string): 'held' | 'left' | 'free' {
  const owner = readOwner(join(directory, LOCK_FILE));
  if (owner === null) return 'free';
  return isRunning(owner) ? 'held' : 'left';
}

function lockedError(directory: string, owner: LockOwner): AcoerError {
  const elsewhere = owner.host !== hostname();
  const who = owner.pid === process.pid && !elsewhere ? 'this process' : `process ${owner.pid}`;
  const advice = elsewhere
    ? `if it has ended, delete ${join(directory, LOCK_FILE)}`
    : 'wait for it to end, or stop it';
  return new AcoerError(
    'RUN_LOCKED',
    `${directory} is in use by ${who} on ${owner.host} (since ${owner.since}): ${advice}.`,
  );
}

/** Makes `from` appear as `to` in one step; false if `to` already exists. */
function placeExclusive(from: string, to: string): boolean {
  try {
    linkSync(from, to);
  } catch (error) {
    // ENOENT: the owner has already removed `from`.
    if (errorCode(error) === 'EEXIST' || errorCode(error) === 'ENOENT') return false;
    if (!['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'].includes(errorCode(error) ?? '')) throw error;
    // The file system has no hard links.
    try {
      copyFileSync(from, to, constants.COPYFILE_EXCL);
    } catch (copyError) {
      if (errorCode(copyError) === 'EEXIST') return false;
      throw copyError;
    }
  }
  return true;
}

export class RunLock {
  private constructor(
    private readonly directory: string,
    private readonly path: string,
    private readonly text: string,
  ) {}

  /** @throws RUN_LOCKED naming the owner if another run writes to `directory` */
  static acquire(directory: string): RunLock {
    const path = join(directory, LOCK_FILE);
    const own = join(directory, `.tmp-${LOCK_FILE}-${process.pid}-${Math.random().toString(36).slice(2)}`);
    const text = `${JSON.stringify(thisProcess(), null, 2)}\n`;
    try {
      for (;;) {
        writeFileSync(own, text, { flush: true });
        if (placeExclusive(own, path)) break;
        const owner = readOwner(path);
        if (owner !== null && isRunning(owner)) throw lockedError(directory, owner);
        setAside(path, `${own}-stale`, owner);
      }
    } finally {
      rmSync(own, { force: true });
    }
    return new RunLock(directory, path, text);
  }

  /** Like `assertHeld`, without blocking on a slow disk. */
  async isHeld(): Promise<boolean> {
    return (await readFile(this.path, 'utf8').catch(() => null)) === this.text;
  }

  /** @throws WRITE_FAILED if the folder is gone or another process took over the run */
  assertHeld(): void {
    let found: string | null = null;
    try {
      found = readFileSync(this.path, 'utf8');
    } catch (error) {
      if (errorCode(error) !== 'ENOENT' && errorCode(error) !== 'ENOTDIR') throw error;
    }
    if (found === this.text) return;
    const owner = found === null ? null : readOwner(this.path);
    const what =
      owner === null
        ? 'is gone, or its lock.json was removed'
        : `was taken over by process ${owner.pid} on ${owner.host}`;
    throw new AcoerError('WRITE_FAILED', `The run directory ${this.directory} ${what}.`);
  }

  release(): void {
    if (!existsSync(this.path) || readFileSync(this.path, 'utf8') !== this.text) return;
    rmSync(this.path, { force: true });
  }
}

/** Removes the lock of `stale`, or puts it back if another process was quicker and owns it by now. */
function setAside(path: string, aside: string, stale: LockOwner | null): void {
  try {
    renameSync(path, aside);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return;
    throw error;
  }
  const taken = readOwner(aside);
  if (taken !== null && JSON.stringify(taken) !== JSON.stringify(stale)) placeExclusive(aside, path);
  rmSync(aside, { force: true });
}
