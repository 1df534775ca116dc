/** Threads that cannot be started: one sentence before libgomp or V8 ends the process. */
import { execFileSync, spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { threadsLeft } from '../../src/base/threads';
import { builtCli } from '../helpers/cli';
import { needs } from '../helpers/needs';

const THREADS = join(dirname(dirname(builtCli())), 'base', 'threads.js');
const LIMIT = 200;
/** Root is exempt from the limit, so another user is needed; the capability reads what only root may read. */
const OTHER = ['setpriv', '--reuid=54321', '--regid=54321', '--clear-groups'];
const CAPABLE = ['--inh-caps', '+dac_override', '--ambient-caps', '+dac_override'];
const asRoot = process.geteuid?.() === 0;
const user = asRoot ? [...OTHER, ...CAPABLE] : [];
const possible =
  process.platform === 'linux' && (!asRoot || spawnSync(user[0]!, [...user.slice(1), 'true']).status === 0);

const limited = needs('setpriv, as root', possible).test;

limited('under ulimit -u, what is left is the limit without the threads of this user', () => {
  const script = `const { threadsLeft, needThreads } = require(${JSON.stringify(THREADS)});
    const { readdirSync } = require('node:fs');
    const own = readdirSync('/proc/self/task').length;
    try { needThreads(${LIMIT}, 'The engine'); } catch (error) {
      console.log(JSON.stringify({ left: threadsLeft(), own, code: error.code, message: error.message }));
    }`;
  const shell = ['bash', '-c', `ulimit -u ${LIMIT} && exec "$0" -e "$1"`, process.execPath, script];
  const [command, ...words] = [...user, ...shell];
  const found = JSON.parse(execFileSync(command!, words, { encoding: 'utf8' })) as Record<string, unknown>;
  const { left, own } = found as { left: number; own: number };
  expect(left).toBeGreaterThanOrEqual(0);
  // The user of the test may run other processes.
  expect(left).toBeLessThanOrEqual(LIMIT - own);
  if (asRoot) expect(left).toBe(LIMIT - own);
  expect(found).toMatchObject({
    code: 'DEVICE',
    message: expect.stringMatching(
      new RegExp(
        `^The engine needs ${LIMIT} threads, but only ${left} more can be started here: use fewer, or `,
      ),
    ),
  });
});

limited('a configuration that cannot be read for want of threads is not called wrong', () => {
  const script = `const { execFileSync } = require('node:child_process');
    const { readdirSync } = require('node:fs');
    const { parseAssignments } = require(${JSON.stringify(join(dirname(builtCli()), '..', 'config', 'load.js'))});
    const own = readdirSync('/proc/self/task').length;
    execFileSync('prlimit', ['--pid', String(process.pid), '--nproc=' + (own + 1)]);
    try { parseAssignments(['seed=1']); } catch (error) { console.log(error.code + ': ' + error.message); }`;
  const [command, ...words] = [...user, process.execPath, '-e', script];
  expect(execFileSync(command, words, { encoding: 'utf8' })).toMatch(
    /^DEVICE: Reading YAML needs \d+ threads/,
  );
});

test('here is room for a thread', () => {
  expect(threadsLeft()).toBeGreaterThan(1);
});
