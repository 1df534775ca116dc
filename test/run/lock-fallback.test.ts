/** The lock of a folder where the kernel has none, or only of this machine: file systems that we cannot mount here. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { errorCode } from '../../src/base/errors';
import type * as KernelLock from '../../src/run/kernel-lock';
import { lockState, RunLock, type LockOwner } from '../../src/run/lock';
import { locksMayBeLocal } from '../../src/run/mounts';
import type * as Mounts from '../../src/run/mounts';

const system = { hasLocks: true, localLocks: false };

jest.mock('../../src/run/kernel-lock', () => {
  const real = jest.requireActual<typeof KernelLock>('../../src/run/kernel-lock');
  return {
    takeKernelLock: (file: number) => (system.hasLocks ? real.takeKernelLock(file) : 'unsupported'),
    testKernelLock: (file: number) => (system.hasLocks ? real.testKernelLock(file) : 'unsupported'),
  };
});
jest.mock('../../src/run/mounts', () => {
  const real = jest.requireActual<typeof Mounts>('../../src/run/mounts');
  return {
    locksMayBeLocal: (path: string, mounts?: string) =>
      mounts === undefined ? system.localLocks : real.locksMayBeLocal(path, mounts),
  };
});

const folder = mkdtempSync(join(tmpdir(), 'acoer-lock-'));
const file = join(folder, 'lock.json');
afterAll(() => rmSync(folder, { recursive: true, force: true }));
afterEach(() => {
  rmSync(file, { force: true });
  Object.assign(system, { hasLocks: true, localLocks: false });
});
const ownerNow = () => JSON.parse(readFileSync(file, 'utf8')) as LockOwner;

/** A lock that its owner has left, changed. */
function left(change: Partial<LockOwner>): void {
  rmSync(file, { force: true });
  const lock = RunLock.acquire(folder);
  const owner = ownerNow();
  lock.release();
  writeFileSync(file, JSON.stringify({ ...owner, ...change }));
}

function refusal(): string {
  try {
    RunLock.acquire(folder);
  } catch (error) {
    expect(errorCode(error)).toBe('RUN_LOCKED');
    return (error as Error).message;
  }
  throw new Error('expected an error');
}

describe('without locks', () => {
  beforeEach(() => (system.hasLocks = false));

  test('the owner is refused while it runs, and says that it has no lock of the kernel', () => {
    const lock = RunLock.acquire(folder);
    expect(ownerNow().kernel).toBe(false);
    expect(lockState(folder)).toBe('held');
    expect(refusal()).toContain('is in use by this process');
    lock.assertHeld();
    lock.release();
    expect(lockState(folder)).toBe('free');
  });

  test('the lock of a process that has ended is taken over, one of another machine is not', () => {
    left({ startTicks: '1' });
    expect(lockState(folder)).toBe('left');
    RunLock.acquire(folder).release();
    left({ host: 'elsewhere' });
    expect(lockState(folder)).toBe('held');
    expect(refusal()).toMatch(
      /on elsewhere .*: its lock cannot be seen from here, so if it has ended, delete .*lock\.json\.$/,
    );
  });

  test('of two that start together the last to write has it', () => {
    const wait = jest.spyOn(Atomics, 'wait').mockImplementationOnce(() => {
      writeFileSync(file, JSON.stringify({ ...ownerNow(), pid: 17, host: 'elsewhere' }));
      return 'timed-out';
    });
    expect(refusal()).toContain('process 17 on elsewhere');
    wait.mockRestore();
    expect(ownerNow().pid).toBe(17);
  });

  test('one that could not lock is not taken over by one that can', () => {
    const lock = RunLock.acquire(folder);
    system.hasLocks = true;
    expect(lockState(folder)).toBe('held');
    expect(refusal()).toContain('is in use by this process');
    lock.release();
  });
});

describe('where machines may not see each other’s locks', () => {
  test('the lock of another machine is kept, one of this machine goes with its process', () => {
    system.localLocks = true;
    left({ boot: 'other', host: 'elsewhere' });
    expect(lockState(folder)).toBe('held');
    expect(refusal()).toContain('delete');
    // A container that was made anew under another name.
    left({ host: 'elsewhere' });
    expect(lockState(folder)).toBe('left');
    RunLock.acquire(folder).release();
    // This machine was restarted.
    left({ boot: 'other', host: hostname() });
    RunLock.acquire(folder).release();
  });
});

test.each<[string, boolean]>([
  ['ext4 /dev/sda1 rw', false],
  ['overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w', false],
  ['nfs4 server:/x rw,vers=4.2,hard,local_lock=none,addr=10.0.0.1', false],
  ['nfs server:/x rw,vers=3,hard,mountproto=tcp,local_lock=none,addr=10.0.0.1', false],
  ['nfs server:/x rw,vers=3,nolock,local_lock=all,addr=10.0.0.1', true],
  ['nfs server:/x rw,vers=3,local_lock=posix,addr=10.0.0.1', true],
  ['nfs server:/x rw,vers=3,local_lock=flock,addr=10.0.0.1', false],
  ['lustre mgs@tcp:/fs rw,flock,lazystatfs', false],
  ['lustre mgs@tcp:/fs rw,localflock,lazystatfs', true],
  ['cifs //server/x rw,vers=3.1.1,nobrl', true],
  ['fuse.sshfs user@server: rw,user_id=0', true],
  ['fuseblk /dev/sdb1 rw', false],
  ['virtiofs tag rw', true],
  ['beegfs beegfs_nodev rw', true],
])('a mount of %s', (mount, local) => {
  const mounts = [
    '22 1 8:1 / / rw - ext4 /dev/sda1 rw',
    `36 22 0:44 / ${folder} rw,relatime shared:7 - ${mount}`,
  ];
  expect(locksMayBeLocal(folder, mounts.join('\n'))).toBe(local);
});

test('the mount that counts is the innermost, of several at one place the last; names may be escaped', () => {
  const spaced = mkdtempSync(join(folder, 'my runs-'));
  const mount = (point: string, type: string) =>
    `1 1 0:1 / ${point.replaceAll(' ', '\\040')} rw - ${type} x rw`;
  const under = (...lines: string[]) => locksMayBeLocal(spaced, lines.join('\n'));
  expect(under(mount(spaced, 'virtiofs'), mount('/', 'ext4'))).toBe(true);
  expect(under(mount(spaced, 'virtiofs'), mount(spaced, 'ext4'))).toBe(false);
  expect(under(mount(`${spaced}-2`, 'virtiofs'), mount('/', 'ext4'))).toBe(false);
  // Nothing is known.
  expect(under('')).toBe(true);
});
