import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { delimiter, dirname, join } from 'node:path';
import { fork, spawn } from 'node:child_process';
import { RunLock } from '../../src/run/lock';
import { hasDesktop } from '../../src/watch';
import type { WireEvents } from '../../src/watch/wire';
import { acoer, builtCli, ended, spawnAcoer } from '../helpers/cli';
import { WatchEvents } from '../helpers/watch-events';
import { watchedFolder, writeRun } from '../helpers/watched-runs';

beforeAll(() => void builtCli());

/** Waits for a line on a stream of a process. */
function line(stream: NodeJS.ReadableStream, pattern: RegExp): Promise<RegExpExecArray> {
  return new Promise((resolve, reject) => {
    let text = '';
    stream.on('data', (chunk: Buffer) => {
      text += chunk.toString();
      const found = pattern.exec(text);
      if (found !== null) resolve(found);
    });
    stream.on('end', () => reject(new Error(`no such line in: ${text}`)));
  });
}

/** Of an event; generous, because a machine may be busy. */
const WITHIN_MS = 60_000;
const inState = (state: string) => (data: WireEvents['runs']) =>
  data.changed.some((run) => run.state === state);

const ADDRESS = /http:\/\/127\.0\.0\.1:\d+\/[\w-]+\/\n/;

test('acoer watch prints the address and how to reach it over SSH, and Ctrl-C ends it at once', async () => {
  const root = watchedFolder();
  writeRun(join(root, 'run'), { steps: 2 });
  const child = spawnAcoer('watch', root, '--port', '0');
  const done = ended(child);
  const [address] = await line(child.stdout, ADDRESS);
  expect((await fetch(address.trim())).status).toBe(200);
  // An open page does not keep it.
  const events = await fetch(`${address.trim()}events`);
  const began = performance.now();
  child.kill('SIGINT');
  const { code, stdout, stderr } = await done;
  expect(performance.now() - began).toBeLessThan(5_000);
  expect(code).toBe(130);
  expect(stdout).toBe(address);
  expect(stderr).toMatch(/^from another machine: ssh -L (\d+):127\.0\.0\.1:\1 \S+, then open that address\n/);
  expect(await events.text()).toContain('event: bye');
});

test.each([
  [
    'a folder that is not there',
    ['/no/such'],
    2,
    /^acoer: There is no folder \/no\/such: name a run or a folder/,
  ],
  ['a port that is none', ['.', '--port', '70000'], 2, /It must be a whole number from 0 to 65535/],
  ['a host that is not here', ['.', '--host', '192.0.2.1'], 2, /^acoer: Cannot listen on 192\.0\.2\.1/],
])('%s exits with 2 and one sentence', async (_, words, code, message) => {
  const result = await acoer('watch', ...words);
  expect(result).toMatchObject({ code, stdout: '' });
  expect(result.stderr).toMatch(message);
});

test('--open hands the address to the desktop, and says so if that fails', async () => {
  const root = watchedFolder();
  writeRun(join(root, 'run'), { steps: 2 });
  const bin = join(root, 'bin');
  mkdirSync(bin);
  writeFileSync(join(bin, 'xdg-open'), `#!/bin/sh\necho "$1" > ${join(root, 'opened')}\nexit 3\n`, {
    mode: 0o755,
  });
  const env = { ...process.env, PATH: `${bin}${delimiter}${process.env.PATH}` };
  const child = spawn(process.execPath, [builtCli(), 'watch', root, '--port', '0', '--open'], { env });
  const done = ended(child);
  await line(child.stderr, /warning: The browser could not be opened; open the address yourself\.\n/);
  child.kill('SIGINT');
  const { stdout } = await done;
  expect(readFileSync(join(root, 'opened'), 'utf8')).toBe(stdout);
});

test.each([
  [{ DISPLAY: ':0' }, true],
  [{ WAYLAND_DISPLAY: 'wayland-0' }, true],
  [{ DISPLAY: ':10', SSH_CONNECTION: 'a' }, false],
  [{ DISPLAY: '' }, false],
  [{}, false],
])('with %j there is a screen: %j', (env, screen) => {
  expect(hasDesktop(env)).toBe(screen);
});

test('acoer train --watch shows the run while it goes on, and the page ends with it, even killed', async () => {
  const out = join(watchedFolder(), 'run');
  const { DISPLAY: _display, WAYLAND_DISPLAY: _wayland, ...env } = process.env;
  const words = ['train', '--watch', '--out', out, '--max-steps', '500', '--set', 'evalProblems=0'];
  const more = ['--set', 'evalSampledProblems=0'];
  const child = spawn(process.execPath, [builtCli(), ...words, ...more], { env });
  const done = ended(child);
  const [, address] = await line(child.stderr, /live page {2}(http:\/\/127\.0\.0\.1:\d+\/[\w-]+\/)\n/);
  const [entry] = (await (await fetch(`${address}runs`)).json()) as { state: string; maxSteps: number }[];
  expect(entry).toMatchObject({ state: 'running', maxSteps: 500 });
  const events = new WatchEvents(address!);
  await events.next('runs', inState('running'), WITHIN_MS);
  child.kill('SIGKILL');
  expect((await done).code).toBeNull();
  // The last word of the page's process is the state in which the run was left.
  await events.next('runs', inState('killed'), WITHIN_MS);
  await events.next('bye', undefined, WITHIN_MS);
  await expect(fetch(address!)).rejects.toThrow();
  rmSync(out, { recursive: true });
});

test('a page whose run has gone waits for the lock of the run, which the kernel may free last', async () => {
  const run = join(watchedFolder(), 'run');
  writeRun(run, { steps: 2, maxSteps: 9 });
  const lock = RunLock.acquire(run);
  const child = fork(join(dirname(builtCli()), '..', 'watch', 'child.js'), [run], { execArgv: [] });
  const [{ address }] = (await once(child, 'message')) as [{ address: string }];
  const events = new WatchEvents(address);
  await events.next('runs', inState('running'), WITHIN_MS);
  child.disconnect();
  await new Promise((resolve) => setTimeout(resolve, 300));
  lock.release();
  await events.next('runs', inState('stopped'), WITHIN_MS);
  await events.next('bye', undefined, WITHIN_MS);
});
