/** The cursor comes back however the process ends: real processes that draw a live block. */
import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { builtCli, ended } from '../helpers/cli';

const SHOW = '\x1b[?25h';
const HIDE = '\x1b[?25l';

/** A process that draws a live block on a stderr that says it is a terminal, then does `work`. */
function drawing(work: string) {
  const cli = dirname(builtCli());
  const program = `
    const { LiveRegion } = require(${JSON.stringify(join(cli, 'view', 'terminal.js'))});
    const { untilSecondSignal } = require(${JSON.stringify(join(cli, 'interrupt.js'))});
    void untilSecondSignal(() => process.exit(130), () => new Promise(() => {}));
    Object.assign(process.stderr, { isTTY: true, columns: 80, rows: 24 });
    const live = new LiveRegion(process.stderr, () => ['a bar', 'a curve'], [process.stderr]);
    live.update();
    setTimeout(() => {}, 20_000);
    setTimeout(() => { ${work} }, 50);`;
  return spawn(process.execPath, ['-e', program]);
}

test.each([
  ['process.exit', 'process.exit(3)', 3],
  ['an exception', "throw new Error('broken')", 1],
  ['a rejected promise', "void Promise.reject(new Error('broken'))", 1],
  ['SIGHUP', "process.kill(process.pid, 'SIGHUP')", 130],
  ['SIGQUIT', "process.kill(process.pid, 'SIGQUIT')", 130],
])('after %s', async (what, work, expected) => {
  const { code, stderr } = await ended(drawing(work));
  expect(code).toBe(expected);
  expect(stderr).toContain(HIDE);
  expect(stderr.lastIndexOf(SHOW)).toBeGreaterThan(stderr.lastIndexOf(HIDE));
  // The block is gone before anything else is printed.
  expect(stderr.lastIndexOf('a curve')).toBeLessThan(stderr.lastIndexOf('\x1b[J'));
  if (what.startsWith('a')) expect(stderr.split(SHOW)[1]).toContain('broken');
});

test('Ctrl-Z gives the cursor back and going on draws again', async () => {
  const child = drawing("process.kill(process.pid, 'SIGTSTP')");
  const end = ended(child);
  let stderr = '';
  const seen = (text: string) =>
    new Promise<void>((resolve) => {
      const look = () => (stderr.includes(text) ? resolve() : undefined);
      child.stderr.on('data', look);
      look();
    });
  child.stderr.prependListener('data', (chunk: Buffer) => (stderr += chunk.toString()));
  await seen(SHOW);
  stderr = '';
  // The process may not have stopped yet, and a SIGCONT before that is lost.
  const waking = setInterval(() => child.kill('SIGCONT'), 100);
  await seen('a curve');
  clearInterval(waking);
  expect(stderr).toContain(HIDE);
  child.kill('SIGHUP');
  expect((await end).stderr.endsWith(SHOW)).toBe(true);
});
