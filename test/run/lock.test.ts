import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { errorCode, exitCodeFor } from '../../src/errors';
import { RunLock, type LockOwner } from '../../src/run/lock';

const root = mkdtempSync(join(tmpdir(), 'acoer-lock-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const fresh = () => mkdtempSync(join(root, 'folder-'));
const ownerIn = (folder: string) => JSON.parse(readFileSync(join(folder, 'lock.json'), 'utf8')) as LockOwner;

/** A folder whose lock has been changed to `owner`. */
function lockedBy(change: Partial<LockOwner>): string {
  const folder = fresh();
  RunLock.acquire(folder);
  writeFileSync(join(folder, 'lock.json'), JSON.stringify({ ...ownerIn(folder), ...change }));
  return folder;
}

function refusal(folder: string): Error {
  try {
    RunLock.acquire(folder);
  } catch (error) {
    return error as Error;
  }
  throw new Error('expected an error');
}

test('names its owner, rejects a second one with exit 2, and leaves nothing when released', () => {
  const folder = fresh();
  const lock = RunLock.acquire(folder);
  expect(ownerIn(folder)).toMatchObject({ pid: process.pid, host: hostname() });
  const error = refusal(folder);
  expect(errorCode(error)).toBe('RUN_LOCKED');
  expect(exitCodeFor(error)).toBe(2);
  expect(readdirSync(folder)).toEqual(['lock.json']);
  lock.assertHeld();
  lock.release();
  expect(readdirSync(folder)).toEqual([]);
});

test('of another running process is kept', async () => {
  const other = spawn(process.execPath, ['-e', 'setTimeout(() => {}, 60000)']);
  await new Promise((resolve) => other.once('spawn', resolve));
  const stat = readFileSync(`/proc/${other.pid}/stat`, 'utf8');
  const startTicks = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]!;
  const folder = lockedBy({ pid: other.pid!, startTicks });
  expect(refusal(folder).message).toContain(`process ${other.pid} on ${hostname()}`);
  other.kill('SIGKILL');
  await new Promise((resolve) => other.once('exit', resolve));
  RunLock.acquire(folder);
  expect(ownerIn(folder).pid).toBe(process.pid);
});

test.each<[string, () => Partial<LockOwner>]>([
  ['a process that has ended', () => ({ pid: spawnSync('true').pid })],
  ['a process whose number has been reused', () => ({ startTicks: '1' })],
  ['a process from before a reboot', () => ({ boot: 'other' })],
])('of %s is taken over', (_, change) => {
  const folder = lockedBy(change());
  RunLock.acquire(folder).assertHeld();
  expect(readdirSync(folder)).toEqual(['lock.json']);
});

test('that a system crash left empty is taken over', () => {
  const folder = fresh();
  writeFileSync(join(folder, 'lock.json'), '');
  RunLock.acquire(folder).assertHeld();
});

test('of another machine is kept, and the error says what to do', () => {
  const folder = lockedBy({ host: 'elsewhere' });
  expect(refusal(folder).message).toContain(`if it has ended, delete ${join(folder, 'lock.json')}`);
});

test('that another process took over is noticed and not released', () => {
  const folder = fresh();
  const lock = RunLock.acquire(folder);
  writeFileSync(join(folder, 'lock.json'), JSON.stringify({ ...ownerIn(folder), pid: 1 }));
  expect(() => lock.assertHeld()).toThrow('was taken over by process 1');
  lock.release();
  expect(readdirSync(folder)).toEqual(['lock.json']);
});

test('goes to one of many processes that start at once, also when it was stale', async () => {
  const folder = lockedBy({ boot: 'other' });
  const script = `
    const { RunLock } = require(${JSON.stringify(join(__dirname, '..', '..', 'dist', 'run', 'lock.js'))});
    try { RunLock.acquire(${JSON.stringify(folder)}); console.log('got'); setTimeout(() => {}, 20000); }
    catch (error) { console.log(error.code); }`;
  const children = Array.from({ length: 6 }, () => spawn(process.execPath, ['-e', script]));
  const said = await Promise.all(
    children.map(
      (child) =>
        new Promise<string>((resolve) =>
          child.stdout.once('data', (data: Buffer) => resolve(data.toString().trim())),
        ),
    ),
  );
  for (const child of children) child.kill('SIGKILL');
  expect(said.sort()).toEqual([...Array<string>(5).fill('RUN_LOCKED'), 'got']);
}, 60_000);
