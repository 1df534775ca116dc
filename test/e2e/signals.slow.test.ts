/** What terminals, schedulers and people send to a command, and what it leaves. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readMetrics } from '../../src/run';
import { STOP_SIGNALS } from '../../src/base/signals';
import { builtCli, ended, ROOT, spawnAcoer } from '../helpers/cli';
import { needs } from '../helpers/needs';

const folder = mkdtempSync(join(tmpdir(), 'acoer-signals-'));
const children: ChildProcess[] = [];
afterAll(() => {
  for (const child of children) child.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
});

const SETTINGS = [
  '--set',
  'promptsPerStep=2',
  '--set',
  'numGenerations=4',
  '--set',
  'maxCompletionLength=64',
  '--set',
  'evalProblems=0',
  '--set',
  'evalSampledProblems=0',
  '--set',
  'saveSteps=100000',
];
const trainWords = (path: string) => ['train', '--out', path, '--max-steps', '1000', ...SETTINGS];
const pause = () => new Promise((resolve) => setTimeout(resolve, 10));
const steps = (path: string) => readMetrics(join(path, 'metrics.jsonl')).length;

async function beyondStep(path: string, step: number, child: ChildProcess): Promise<void> {
  while (!existsSync(join(path, 'metrics.jsonl')) || steps(path) <= step) {
    if (child.exitCode !== null || child.signalCode !== null) throw new Error('the run has ended');
    await pause();
  }
}

/** The step of the newest checkpoint. */
const saved = (path: string): number =>
  Number(readdirSync(join(path, 'checkpoints')).sort().at(-1)!.slice('step-'.length));

/** The ports on which a process listens, in this network namespace. */
function listening(pid: number): number[] {
  const sockets = readdirSync(`/proc/${pid}/fd`).flatMap((name) => {
    try {
      return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${name}`))?.[1] ?? [];
    } catch {
      return []; // closed since
    }
  });
  const rows = readFileSync('/proc/net/tcp', 'utf8').split('\n').slice(1);
  return rows
    .map((row) => row.trim().split(/\s+/))
    .filter((row) => row[3] === '0A' && sockets.includes(row[9] ?? ''))
    .map((row) => parseInt(row[1]!.split(':')[1]!, 16));
}

test('each of them ends a run with a checkpoint and exit code 130, and the run goes on', async () => {
  const path = join(folder, 'each');
  let words = trainWords(path);
  for (const name of STOP_SIGNALS) {
    const before = existsSync(path) ? steps(path) : 0;
    const child = spawnAcoer(...words);
    children.push(child);
    const end = ended(child);
    await beyondStep(path, before, child);
    child.kill(name);
    const { code, stderr } = await end;
    expect([name, code]).toEqual([name, 130]);
    expect(stderr).not.toMatch(/debugger/i);
    expect([name, saved(path)]).toEqual([name, steps(path)]);
    expect(readdirSync(path)).not.toContain('lock.json');
    words = ['train', '--resume', path];
  }
  expect(steps(path)).toBeGreaterThanOrEqual(STOP_SIGNALS.length);
});

test('SIGUSR1 opens no debugger, while starting and in node train.js', async () => {
  const path = join(folder, 'early');
  for (const program of [
    [builtCli(), ...trainWords(path)],
    [join(ROOT, 'train.js'), ...trainWords(path).slice(1)],
  ]) {
    rmSync(path, { recursive: true, force: true });
    const child = spawn(process.execPath, program, { stdio: 'pipe' });
    children.push(child);
    const end = ended(child);
    // From the moment at which the process listens to the signal at all (bit 9 of the mask).
    const caught = () =>
      BigInt(`0x${/SigCgt:\s*(\w+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))![1]}`);
    while (readlinkSync(`/proc/${child.pid}/exe`) !== process.execPath || (caught() & (1n << 9n)) === 0n)
      await pause();
    // Node's own handler is there first; ours follows once main.js is read.
    while (!existsSync(path)) await pause();
    child.kill('SIGUSR1');
    while (child.exitCode === null && child.signalCode === null) {
      expect(listening(child.pid!)).toEqual([]);
      await pause();
    }
    const { code, stderr } = await end;
    expect(code).toBe(130);
    expect(stderr).not.toMatch(/debugger/i);
  }
});

test('SIGUSR1 ends a command that handles no signals', async () => {
  const program = `
    process.argv = [process.argv[0], 'acoer'];
    require(${JSON.stringify(builtCli())});
    setInterval(() => {}, 1000);
    console.log('ready');`;
  const child = spawn(process.execPath, ['-e', program], { stdio: 'pipe' });
  children.push(child);
  const end = ended(child);
  await once(child.stdout, 'data');
  child.kill('SIGUSR1');
  expect(await end).toMatchObject({ code: 130, stderr: '' });
});

describe('how many signals end at once', () => {
  /** A process that reports the first signal, and then what it got. */
  const program = (early = '') => `${early}
    const { untilSecondSignal } = require(${JSON.stringify(builtCli().replace('main.js', 'interrupt.js'))});
    void untilSecondSignal(() => console.log('first'), () => new Promise(() => setInterval(() => {}, 1000)));
    console.log('ready');`;

  async function started(): Promise<{ child: ChildProcess; next: () => Promise<string> }> {
    const child = spawn(process.execPath, ['-e', program()], { stdio: ['ignore', 'pipe', 'inherit'] });
    children.push(child);
    const next = async () => String(((await once(child.stdout, 'data')) as [Buffer])[0]).trim();
    expect(await next()).toBe('ready');
    return { child, next };
  }

  test.each(['SIGINT', 'SIGTERM', 'SIGQUIT'] as const)('%s after another', async (name) => {
    const { child, next } = await started();
    child.kill('SIGUSR1');
    expect(await next()).toBe('first');
    child.kill(name);
    expect(await once(child, 'exit')).toEqual([130, null]);
  });

  test('what comes by itself several times does not, nor a signal that is passed on twice', async () => {
    const { child, next } = await started();
    const first = next();
    // Both are there when the process wakes up, and the kernel keeps one of a kind.
    child.kill('SIGTERM');
    await first;
    for (const name of ['SIGHUP', 'SIGXCPU', 'SIGUSR1', 'SIGHUP', 'SIGALRM'] as const) {
      child.kill(name);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    expect([child.exitCode, child.signalCode]).toEqual([null, null]);
    child.kill('SIGINT');
    expect(await once(child, 'exit')).toEqual([130, null]);
  });
});

describe('a terminal that is closed', () => {
  const hasScript = spawnSync('script', ['-qec', 'true', '/dev/null']).status === 0;
  const withTerminal = needs('script(1) of util-linux', hasScript).test;

  async function closed(path: string, before: string): Promise<void> {
    const command = `${before} ${process.execPath} ${builtCli()} ${trainWords(path).join(' ')}`;
    const terminal = spawn('script', ['-qec', `echo $$ > ${folder}/pid; exec ${command}`, '/dev/null'], {
      stdio: ['pipe', 'ignore', 'ignore'],
      cwd: folder,
    });
    children.push(terminal);
    await beyondStep(path, 0, terminal);
    terminal.kill('SIGKILL');
  }
  const pid = () => readFileSync(join(folder, 'pid'), 'utf8').trim();
  const runs = () => existsSync(`/proc/${pid()}/fd/0`) || existsSync(`/proc/${pid()}/exe`);

  withTerminal('ends the run with a checkpoint', async () => {
    const path = join(folder, 'terminal');
    await closed(path, '');
    while (existsSync(join(path, 'lock.json'))) await pause();
    expect(saved(path)).toBe(steps(path));
  });

  withTerminal('leaves one that nohup started', async () => {
    const path = join(folder, 'nohup');
    await closed(path, 'nohup');
    process.kill(Number(pid()), 'SIGHUP');
    const reached = steps(path);
    while (steps(path) < reached + 3) {
      expect(runs()).toBe(true);
      await pause();
    }
    process.kill(Number(pid()), 'SIGTERM');
    while (existsSync(join(path, 'lock.json'))) await pause();
    expect(saved(path)).toBe(steps(path));
  });
});
