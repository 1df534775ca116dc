/** The lock of a folder, between real processes: live, stopped, killed, racing, and in containers. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'; // prettier-ignore
import { hostname, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { errorCode, exitCodeFor } from '../../src/base/errors';
import { lockState, RunLock, type LockOwner } from '../../src/run/lock';
import { needs } from '../helpers/needs';

const root = mkdtempSync(join(tmpdir(), 'acoer-lock-'));
const children: ChildProcess[] = [];
afterAll(() => {
  for (const child of children) child.kill('SIGKILL');
  rmSync(root, { recursive: true, force: true });
});
const fresh = () => mkdtempSync(join(root, 'folder-'));
const lockFile = (folder: string) => join(folder, 'lock.json');
const ownerIn = (folder: string) => JSON.parse(readFileSync(lockFile(folder), 'utf8')) as LockOwner;

const MODULE = resolve(__dirname, '..', '..', 'dist', 'run', 'lock.js');
const HEAD = `const { RunLock } = require(${JSON.stringify(MODULE)});`;
/** Locks a folder and keeps it; says `got` or why not. */
const KEEP = `${HEAD}
  try { RunLock.acquire(process.argv[1]); console.log('got'); setInterval(() => {}, 1000); }
  catch (error) { console.log(error.code + ' ' + error.message); }`;

function start(folder: string, before: readonly string[] = [], script = KEEP): ChildProcess {
  const words = [...before, process.execPath, '-e', script, folder];
  const child = spawn(words[0]!, words.slice(1), { stdio: ['ignore', 'pipe', 'inherit'] });
  children.push(child);
  return child;
}

async function saidBy(child: ChildProcess): Promise<string> {
  const [data] = (await once(child.stdout!, 'data')) as [Buffer];
  return data.toString().trim();
}

async function kill(child: ChildProcess): Promise<void> {
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
}

function refusal(folder: string): Error {
  try {
    RunLock.acquire(folder);
  } catch (error) {
    return error as Error;
  }
  throw new Error('expected an error');
}

test('names its owner, rejects a second one in the same process, and leaves nothing when released', () => {
  const folder = fresh();
  const lock = RunLock.acquire(folder);
  expect(ownerIn(folder)).toMatchObject({ pid: process.pid, host: hostname(), kernel: true });
  const error = refusal(folder);
  expect(errorCode(error)).toBe('RUN_LOCKED');
  expect(exitCodeFor(error)).toBe(2);
  expect(error.message).toContain('is in use by this process');
  expect(lockState(folder)).toBe('held');
  lock.assertHeld();
  lock.release();
  lock.release();
  expect(readdirSync(folder)).toEqual([]);
  expect(lockState(folder)).toBe('free');
  RunLock.acquire(folder).release();
});

test('of another process is kept while that lives, also when it is stopped, and is free after kill -9', async () => {
  const folder = fresh();
  const other = start(folder);
  expect(await saidBy(other)).toBe('got');
  const sentence = `${folder} is in use by process ${other.pid} on ${hostname()}`;
  expect(refusal(folder).message).toContain(sentence);
  other.kill('SIGSTOP');
  expect(refusal(folder).message).toContain(sentence);
  const before = readFileSync(lockFile(folder), 'utf8');
  expect(lockState(folder)).toBe('held');
  await kill(other);
  expect(lockState(folder)).toBe('left');
  expect(readFileSync(lockFile(folder), 'utf8')).toBe(before);
  const lock = RunLock.acquire(folder);
  expect(ownerIn(folder).pid).toBe(process.pid);
  lock.release();
});

test.each<[string, (own: LockOwner) => string]>([
  ['nothing', () => ''],
  ['the name of the owner before it', (own) => JSON.stringify({ ...own, pid: spawnSync('true').pid })],
])('an owner that has yet to write its name over %s is waited for', async (_, before) => {
  const folder = fresh();
  const late = `${HEAD}
    const { readFileSync, writeFileSync } = require('fs');
    RunLock.acquire(process.argv[1]);
    const path = process.argv[1] + '/lock.json', own = readFileSync(path);
    process.once('SIGUSR2', () => {
      setTimeout(() => writeFileSync(path, own), 150);
    });
    console.log('got'); setInterval(() => {}, 1000);`;
  const other = start(folder, [], late);
  expect(await saidBy(other)).toBe('got');
  writeFileSync(lockFile(folder), before(ownerIn(folder)));
  other.kill('SIGUSR2');
  expect(refusal(folder).message).toContain(`in use by process ${other.pid} on ${hostname()}`);
  await kill(other);
});

describe('in containers on one volume', () => {
  const inContainer = (host: string) => [
    'unshare', '--pid', '--fork', '--kill-child', '--mount-proc', '--uts', 'sh', '-c', `hostname ${host} && exec "$@"`, 'sh',
  ]; // prettier-ignore
  const [program, ...words] = [...inContainer('a'), 'true'];
  const { status, stderr, error } = spawnSync(program, words, { encoding: 'utf8' });
  const refused = status === 0 ? null : (error?.message ?? stderr.trim());
  const allowed = needs(`a container's namespaces (unshare: ${refused})`, refused === null).test;

  allowed('a live owner is seen from another PID namespace', async () => {
    const folder = fresh();
    const first = start(folder, inContainer('same'));
    expect(await saidBy(first)).toBe('got');
    expect(lockState(folder)).toBe('held');
    // Under the same host name, where the owner's pid means another process or none.
    for (const host of ['same', 'other'])
      expect(await saidBy(start(folder, inContainer(host)))).toMatch(/^RUN_LOCKED .* on same .*: wait/);
    await kill(first);
  });

  allowed('after kill -9 the next one goes on under another host name', async () => {
    const folder = fresh();
    const first = start(folder, inContainer('pod-a'));
    expect(await saidBy(first)).toBe('got');
    await kill(first);
    const second = start(folder, inContainer('pod-b'));
    expect(await saidBy(second)).toBe('got');
    expect(ownerIn(folder).host).toBe('pod-b');
    await kill(second);
  });
});

test('left by a machine that was restarted, or on a volume that moved, is taken over', () => {
  const folder = fresh();
  const lock = RunLock.acquire(folder);
  const left = { ...ownerIn(folder), boot: 'other', host: 'elsewhere' };
  lock.release();
  writeFileSync(lockFile(folder), JSON.stringify(left));
  expect(lockState(folder)).toBe('left');
  RunLock.acquire(folder).release();
});

test.each<[string, Buffer | string]>([
  ['empty', ''],
  ['torn', '{\n  "pid": 17,\n  "ho'],
  ['of NULs', Buffer.alloc(200)],
  ['of something else', '[1, 2]'],
])('a file left %s is taken over', (_, content) => {
  const folder = fresh();
  writeFileSync(lockFile(folder), content);
  expect(lockState(folder)).toBe('free');
  const lock = RunLock.acquire(folder);
  lock.assertHeld();
  expect(readdirSync(folder)).toEqual(['lock.json']);
  lock.release();
});

describe('of an owner without a lock of the kernel', () => {
  const owned = (change: Partial<LockOwner>): string => {
    const folder = fresh();
    const lock = RunLock.acquire(folder);
    const owner = { ...ownerIn(folder), kernel: undefined, ...change };
    lock.release();
    writeFileSync(lockFile(folder), JSON.stringify(owner));
    return folder;
  };

  test('is kept while its process runs', () => {
    const folder = owned({});
    expect(lockState(folder)).toBe('held');
    expect(refusal(folder).message).toContain('in use by this process');
  });

  test('is kept on another machine, and the error says what to do', () => {
    const folder = owned({ host: 'elsewhere' });
    expect(refusal(folder).message).toContain(`if it has ended, delete ${lockFile(folder)}`);
  });

  test.each<[string, () => Partial<LockOwner>]>([
    ['a process that has ended', () => ({ pid: spawnSync('true').pid })],
    ['a process whose number has been reused', () => ({ startTicks: '1' })],
    ['a process from before a reboot', () => ({ boot: 'other' })],
  ])('of %s is taken over', (_, change) => {
    const folder = owned(change());
    RunLock.acquire(folder).release();
  });
});

test.each<[string, (path: string) => void]>([
  ['a folder', (path) => mkdirSync(path)],
  ['a dangling link', (path) => symlinkSync('/nonexistent/file', path)],
  ['a pipe', (path) => spawnSync('mkfifo', [path])],
])('%s in its place is one sentence', (_, make) => {
  const folder = fresh();
  make(lockFile(folder));
  const error = refusal(folder);
  expect(exitCodeFor(error)).toBe(2);
  expect(error.message).toBe(`${lockFile(folder)} is not a regular file, so nobody can lock it; remove it.`);
  expect(existsSync('/nonexistent')).toBe(false);
});

test('that was removed or replaced is noticed, and what replaced it stays', () => {
  const folder = fresh();
  const lock = RunLock.acquire(folder);
  const owner = ownerIn(folder);
  rmSync(lockFile(folder));
  expect(() => lock.assertHeld()).toThrow('is gone, or it or its lock.json was removed or replaced');
  writeFileSync(lockFile(folder), JSON.stringify({ ...owner, pid: 1 }));
  expect(() => lock.assertHeld()).toThrow('was taken over by process 1');
  lock.release();
  expect(readdirSync(folder)).toEqual(['lock.json']);
});

test('goes to one of eight processes that start at once, also when one has left it', async () => {
  const folder = fresh();
  writeFileSync(lockFile(folder), '{');
  const said = await Promise.all(Array.from({ length: 8 }, () => saidBy(start(folder))));
  expect(said.filter((text) => text === 'got')).toHaveLength(1);
  expect(said.filter((text) => text.startsWith('RUN_LOCKED '))).toHaveLength(7);
});

test('four processes that take and release it all the time never have it together', async () => {
  const folder = fresh();
  const counter = join(folder, 'counter');
  writeFileSync(counter, '0');
  const script = `${HEAD}
    const { readFileSync, writeFileSync } = require('node:fs');
    for (let done = 0; done < 25;) {
      let lock;
      try { lock = RunLock.acquire(process.argv[1]); }
      catch (error) { if (error.code !== 'RUN_LOCKED') throw error; continue; }
      const path = process.argv[1] + '/counter';
      writeFileSync(path, String(Number(readFileSync(path, 'utf8')) + 1));
      lock.release();
      done++;
    }`;
  await Promise.all(Array.from({ length: 4 }, () => once(start(folder, [], script), 'exit')));
  expect(readFileSync(counter, 'utf8')).toBe('100');
  expect(readdirSync(folder)).toEqual(['counter']);
});

test('needs no libtorch', () => {
  const script = `${HEAD} RunLock.acquire(process.argv[1]);
    console.log(process.report.getReport().sharedObjects.filter((path) => /torch|\\.node$/.test(path)).join());`;
  const { stdout } = spawnSync(process.execPath, ['-e', script, fresh()], { encoding: 'utf8' });
  expect(stdout.trim()).toMatch(/^[^,]*lock\.node$/);
});
