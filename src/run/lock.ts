/**
 * The lock of a folder: a lock of the kernel on `lock.json`, whose content names the owner for people. Who has
 * the kernel's lock runs; when its process ends, in whatever way, the next one takes it. Where there are no
 * such locks, or machines do not see each other's, the owner's host, process and start decide.
 */
import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readSync,
  rmSync,
  writeSync,
} from 'node:fs';
// eslint-disable-next-line no-restricted-imports -- once a second, of a file that this process has made and locked
import { readFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { AcoerError, badInput, errorCode } from '../base/errors';
import { parsedJson } from '../base/json';
import { bootId, startTicks } from '../base/process';
import { takeKernelLock, testKernelLock } from './kernel-lock';
import { locksMayBeLocal } from './mounts';

export const LOCK_FILE = 'lock.json';

export interface LockOwner {
  pid: number;
  host: string;
  /** Start of the process, in clock ticks since boot. */
  startTicks: string | null;
  /** Identifies this boot of the machine. */
  boot: string | null;
  /** Time of locking, for people. */
  since: string;
  /** Whether it holds a lock of the kernel. */
  kernel: boolean;
}

const thisProcess = (kernel: boolean): LockOwner => ({
  pid: process.pid,
  host: hostname(),
  startTicks: startTicks(process.pid),
  boot: bootId(),
  since: new Date().toISOString(),
  kernel,
});

const MAX_BYTES = 4096;
/** Opens a pipe without waiting for its other end. */
const NOW = constants.O_RDONLY | constants.O_NONBLOCK;

/** null: there is none. @throws BAD_INPUT if it is something else than a file */
function openLockFile(path: string, flags: number): number | null {
  const { O_NOFOLLOW, O_NONBLOCK } = constants;
  try {
    // Without O_NONBLOCK, opening a pipe would wait for its other end.
    // eslint-disable-next-line no-restricted-syntax -- refuses what is no regular file itself, and links
    const handle = openSync(path, flags | O_NOFOLLOW | O_NONBLOCK, 0o666);
    if (fstatSync(handle).isFile()) return handle;
    closeSync(handle);
  } catch (error) {
    if (errorCode(error) === 'ENOENT' && (flags & constants.O_CREAT) === 0) return null;
    if (!['EISDIR', 'ELOOP', 'ENXIO'].includes(errorCode(error) ?? '')) throw error;
  }
  throw badInput(`${path} is not a regular file, so nobody can lock it; remove it.`);
}

function readText(handle: number): string {
  const buffer = Buffer.alloc(MAX_BYTES);
  return buffer.toString('utf8', 0, readSync(handle, buffer, 0, MAX_BYTES, 0));
}

/** What is at `path` now; null: nothing. Opened anew, because over NFS only that asks the server. */
function readAt<T>(path: string, read: (handle: number) => T): T | null {
  const handle = openLockFile(path, constants.O_RDONLY);
  if (handle === null) return null;
  try {
    return read(handle);
  } finally {
    closeSync(handle);
  }
}

/** null: nobody, or a crash left the file empty or torn. */
function parseOwner(text: string): LockOwner | null {
  const owner = parsedJson(text) as Partial<LockOwner> | null;
  return typeof owner?.pid === 'number' && typeof owner.host === 'string' ? (owner as LockOwner) : null;
}

/**
 * Whether an owner may be running that the kernel does not name as one.
 * @param asked whether the kernel could be asked
 */
function mayRun(owner: LockOwner, path: string, asked: boolean): boolean {
  if (asked && owner.kernel && (owner.boot === bootId() || !locksMayBeLocal(path))) return false;
  // A process on another machine cannot be checked.
  if (owner.host !== hostname()) return true;
  return owner.boot === bootId() && startTicks(owner.pid) === owner.startTicks;
}

/** Whether a process writes to `directory`, has left its lock there when it died, or neither. */
export function lockState(directory: string): 'held' | 'left' | 'free' {
  const path = join(directory, LOCK_FILE);
  const state = readAt(path, (handle) => {
    const lock = testKernelLock(handle);
    if (lock === 'held') return 'held';
    const owner = parseOwner(readText(handle));
    if (owner === null) return 'free';
    return mayRun(owner, path, lock === 'free') ? 'held' : 'left';
  });
  return state ?? 'free';
}

/** Who writes to `directory`, or has; null: nobody, or nobody has said so. */
export const lockOwner = (directory: string): LockOwner | null =>
  readAt(join(directory, LOCK_FILE), (handle) => parseOwner(readText(handle)));

/** @param byKernel the kernel says so; else only the content of the file does */
function lockedError(directory: string, owner: LockOwner | null, byKernel: boolean): AcoerError {
  const wait = 'wait for it to end, or stop it';
  if (owner === null)
    return new AcoerError('RUN_LOCKED', `${directory} is in use by another process: ${wait}.`);
  const isThis = owner.pid === process.pid && owner.startTicks === startTicks(process.pid);
  const who = isThis ? 'this process' : `process ${owner.pid}`;
  const advice =
    byKernel || owner.host === hostname()
      ? wait
      : `its lock cannot be seen from here, so if it has ended, delete ${join(directory, LOCK_FILE)}`;
  return new AcoerError(
    'RUN_LOCKED',
    `${directory} is in use by ${who} on ${owner.host} (since ${owner.since}): ${advice}.`,
  );
}

/** Whether `path` still names the open file: its last owner may have removed it in the meantime. */
function isAt(path: string, handle: number): boolean {
  const ours = fstatSync(handle, { bigint: true });
  const there = readAt(path, (other) => fstatSync(other, { bigint: true }));
  return there?.ino === ours.ino && there.dev === ours.dev;
}

/** Without the kernel's locks two may start at once: the last to write is the owner. */
const SETTLE_MS = 100;

const pause = (milliseconds: number): unknown =>
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);

/** An owner writes its name right after it gets the lock; a busy machine may stop it in between. */
const NAME_WAIT_MS = 500;

/** Who has the kernel's lock; null: it has not said so, or left already. */
function nameOfHolder(path: string, handle: number): LockOwner | null {
  for (const end = performance.now() + NAME_WAIT_MS; ; pause(5)) {
    const owner = parseOwner(readText(handle));
    const named = owner !== null && mayRun(owner, path, false);
    if (named || performance.now() > end) return owner;
  }
}

export class RunLock {
  private constructor(
    private readonly directory: string,
    private readonly path: string,
    /** null: released. */
    private handle: number | null,
    private readonly text: string,
  ) {}

  /**
   * @throws RUN_LOCKED naming the owner if another process, or this one, writes to `directory`
   * @throws BAD_INPUT if something else than a file has the lock's name
   */
  static acquire(directory: string): RunLock {
    const path = join(directory, LOCK_FILE);
    for (;;) {
      const handle = openLockFile(path, constants.O_RDWR | constants.O_CREAT)!;
      try {
        const lock = RunLock.lockOpened(directory, path, handle);
        if (lock !== null) return lock;
      } catch (error) {
        closeSync(handle);
        throw error;
      }
      closeSync(handle);
    }
  }

  /** null: the file was removed before it was locked. */
  private static lockOpened(directory: string, path: string, handle: number): RunLock | null {
    const kernel = takeKernelLock(handle);
    if (kernel === 'held') throw lockedError(directory, nameOfHolder(path, handle), true);
    const owner = parseOwner(readText(handle));
    if (!isAt(path, handle)) return null;
    const asked = kernel === 'free';
    if (owner !== null && mayRun(owner, path, asked)) throw lockedError(directory, owner, false);
    const text = `${JSON.stringify(thisProcess(asked), null, 2)}\n`;
    ftruncateSync(handle);
    writeSync(handle, text, 0);
    fsyncSync(handle);
    const lock = new RunLock(directory, path, handle, text);
    if (!asked) lock.settle();
    return lock;
  }

  private settle(): void {
    pause(SETTLE_MS);
    const found = readAt(this.path, readText) ?? '';
    if (found !== this.text) throw lockedError(this.directory, parseOwner(found), false);
  }

  /** Like `assertHeld`, without blocking on a slow disk. */
  async isHeld(): Promise<boolean> {
    return (await readFile(this.path, { encoding: 'utf8', flag: NOW }).catch(() => null)) === this.text;
  }

  /**
   * Its own text tells that the folder is where it was and the lock still ours, also where another machine
   * does not see it.
   * @throws WRITE_FAILED if the folder is gone or another process took over
   */
  assertHeld(): void {
    let found: string | null = null;
    try {
      found = readAt(this.path, readText);
      // A copy of the folder in its place has the text, but is not what is locked.
      if (found === this.text && this.handle !== null && !isAt(this.path, this.handle)) found = null;
    } catch (error) {
      if (errorCode(error) !== 'ENOTDIR' && errorCode(error) !== 'BAD_INPUT') throw error;
    }
    if (found === this.text) return;
    const owner = found === null ? null : parseOwner(found);
    const what =
      owner === null
        ? 'is gone, or it or its lock.json was removed or replaced'
        : `was taken over by process ${owner.pid} on ${owner.host}`;
    throw new AcoerError('WRITE_FAILED', `The folder ${this.directory} ${what}.`);
  }

  /** Removes the file, if it is still ours, while nobody else can have the lock. */
  release(): void {
    if (this.handle === null) return;
    const handle = this.handle;
    this.handle = null;
    try {
      if (readAt(this.path, readText) === this.text) rmSync(this.path, { force: true });
    } finally {
      closeSync(handle);
    }
  }

  [Symbol.dispose](): void {
    this.release();
  }
}
