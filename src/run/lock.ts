/**
 * Who writes a run: `lock.json` holds the owner's process, machine and start. A lock whose process has ended is taken
 * over. Ages come from the kernel's counts, not from the clock, which may jump.
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
import { hostname } from 'node:os';
import { join } from 'node:path';
import { AcoerError, errorCode } from '../errors';

export const LOCK_FILE = 'lock.json';

export interface LockOwner {
  pid: number;
  host: string;
  /** When the process started, in clock ticks since the machine did. */
  startTicks: string;
  /** Names this start of the machine. */
  boot: string;
  /** For people. */
  since: string;
}

/** A process's start in ticks since boot: the 22nd field, the 20th behind the name in parentheses; null: it is gone. */
function startTicks(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    // A zombie has ended; only its parent has not noticed.
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

/** null: no lock, or one that a crash of the machine left empty. */
function readOwner(path: string): LockOwner | null {
  try {
    const owner = JSON.parse(readFileSync(path, 'utf8')) as Partial<LockOwner> | null;
    return typeof owner?.pid === 'number' && typeof owner.host === 'string' ? (owner as LockOwner) : null;
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || error instanceof SyntaxError) return null;
    throw error;
  }
}

/** Another machine's processes cannot be seen, so they count as running. */
function isRunning(owner: LockOwner): boolean {
  if (owner.host !== hostname()) return true;
  return owner.boot === bootId() && startTicks(owner.pid) === owner.startTicks;
}

function lockedError(directory: string, owner: LockOwner): AcoerError {
  const elsewhere = owner.host !== hostname();
  const who = owner.pid === process.pid && !elsewhere ? 'this process' : `process ${owner.pid}`;
  const advice = elsewhere
    ? `if it has ended, delete ${join(directory, LOCK_FILE)}`
    : 'wait for it to end, or stop it';
  return new AcoerError(
    'RUN_LOCKED',
    `${directory} is being written by ${who} on ${owner.host} (since ${owner.since}): ${advice}.`,
  );
}

/** `from` appears as `to` at once and whole, unless `to` is there: then false. */
function placeExclusive(from: string, to: string): boolean {
  try {
    linkSync(from, to);
  } catch (error) {
    // ENOENT: the owner has cleaned up `from`.
    if (errorCode(error) === 'EEXIST' || errorCode(error) === 'ENOENT') return false;
    if (!['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'].includes(errorCode(error) ?? '')) throw error;
    // A file system without hard links.
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

  /** @throws RUN_LOCKED naming the owner when another run writes `directory` */
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

  /** @throws WRITE_FAILED when the folder vanished or another process took the run over */
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
        ? 'has vanished, or its lock.json was removed'
        : `was taken over by process ${owner.pid} on ${owner.host}`;
    throw new AcoerError('WRITE_FAILED', `The run directory ${this.directory} ${what}.`);
  }

  release(): void {
    if (!existsSync(this.path) || readFileSync(this.path, 'utf8') !== this.text) return;
    rmSync(this.path, { force: true });
  }
}

/** Removes the lock of `stale`; when another process was quicker and the lock is its own by now, it is put back. */
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
