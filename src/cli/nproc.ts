/**
 * `acoer train --nproc N`: the command again in N processes of this machine, which are its ranks. The terminal shows rank
 * 0; what the others print is in `ranks/K.log` of the run. They end with this process, however it ends.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { createWriteStream, mkdirSync, type WriteStream } from 'node:fs';
import { createServer } from 'node:net';
import { constants } from 'node:os';
import { join } from 'node:path';
import { AcoerError, badUsage } from '../base/errors';
import { isRecord } from '../base/json';
import { STOP_SIGNALS } from '../base/signals';
import { launchOf } from '../ranks';
import { printNote } from './output';

const LOOPBACK = '127.0.0.1';
/** Set for children, which tell the run's folder and end when this process is gone. */
const CHILD = 'ACOER_RANKS_CHILD';
/** How long the others may take to end by themselves when one has failed, and then when they were asked. */
const GRACE_MS = 20_000;
const LAST_MS = 120_000;
/** Of what a rank prints before the run has a folder. */
const KEPT_CHARS = 1 << 20;

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().once('error', reject);
    server.listen(0, LOOPBACK, () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0));
    });
  });
}

/** The words of the command line without --nproc. */
export function withoutNproc(words: readonly string[]): string[] {
  const at = words.indexOf('--nproc');
  const rest = at === -1 ? words : words.filter((_, i) => i !== at && i !== at + 1);
  return rest.filter((word) => !word.startsWith('--nproc='));
}

/** What a rank prints: kept until the run has a folder, then in a file of it. */
class Output {
  private kept = '';
  private file: WriteStream | null = null;

  constructor(private readonly rank: number) {}

  add(text: string): void {
    if (this.file !== null) this.file.write(text);
    else this.kept = `${this.kept}${text}`.slice(-KEPT_CHARS);
  }

  /** @param directory of the run */
  into(directory: string): void {
    const folder = join(directory, 'ranks');
    try {
      mkdirSync(folder, { recursive: true });
    } catch {
      // The run's folder is gone: what the rank prints is shown at the end.
      return;
    }
    this.file = createWriteStream(join(folder, `${this.rank}.log`), { flags: 'a' });
    this.file.on('error', () => (this.file = null));
    this.file.write(this.kept);
    this.kept = '';
  }

  /** What nobody can read in a file. */
  lines(): string[] {
    return this.kept.split('\n').filter((line) => line !== '');
  }
}

/** The code of an ended process: 128 and the number of the signal that ended it. */
const codeOf = (child: ChildProcess): number =>
  child.exitCode ?? 128 + (child.signalCode === null ? 0 : constants.signals[child.signalCode]);

function startRank(rank: number, size: number, shared: Record<string, string>, output: Output): ChildProcess {
  const place = { RANK: rank, WORLD_SIZE: size, LOCAL_RANK: rank, LOCAL_WORLD_SIZE: size };
  const own = Object.fromEntries(Object.entries(place).map(([name, value]) => [name, String(value)]));
  const print = rank === 0 ? 'inherit' : 'pipe';
  const words = [...process.execArgv, process.argv[1]!, ...withoutNproc(process.argv.slice(2))];
  const child = spawn(process.execPath, words, {
    env: { ...process.env, ...shared, ...own, [CHILD]: '1' },
    stdio: ['ignore', print, print, 'ipc'],
  });
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => output.add(text));
  }
  return child;
}

/** Ends those that go on after one has failed. */
function endOthers(children: readonly ChildProcess[]): void {
  const signal = (name: NodeJS.Signals) => () => children.forEach((child) => child.kill(name));
  setTimeout(signal('SIGTERM'), GRACE_MS).unref();
  setTimeout(signal('SIGKILL'), GRACE_MS + LAST_MS).unref();
}

/**
 * Runs this command as `size` ranks.
 * @returns the exit code: that of rank 0, or of another that failed
 * @throws BAD_CONFIG in a process that is a rank already
 */
export async function runRanks(size: number): Promise<number> {
  if (launchOf(process.env) !== null)
    throw badUsage('--nproc starts ranks itself, and this process is one already: leave it out.');
  const shared = {
    MASTER_ADDR: LOOPBACK,
    MASTER_PORT: String(await freePort()),
    ACOER_RANKS_TOKEN: randomBytes(32).toString('hex'),
  };
  const outputs = Array.from({ length: size }, (_, rank) => new Output(rank));
  const children = outputs.map((output, rank) => startRank(rank, size, shared, output));
  const forward = (name: NodeJS.Signals): void => children.forEach((child) => child.kill(name));
  for (const name of STOP_SIGNALS) process.on(name, forward);
  children[0]!.on('message', (message: unknown) => {
    if (!isRecord(message) || typeof message.run !== 'string') return;
    for (const output of outputs.slice(1)) output.into(message.run);
  });
  const codes = await Promise.all(
    children.map(
      (child) =>
        new Promise<number>((resolve, reject) => {
          child.once('error', (cause) =>
            reject(new AcoerError('INTERNAL', `A rank could not be started: ${cause.message}`, { cause })),
          );
          child.once('close', () => {
            if (codeOf(child) !== 0) endOthers(children);
            resolve(codeOf(child));
          });
        }),
    ),
  );
  outputs.forEach((output, rank) => output.lines().forEach((line) => printNote(`rank ${rank}: ${line}`)));
  return codes.find((code) => code !== 0) ?? 0;
}

/** In a child: ends it, with a checkpoint, when the process that started it is gone. */
export function endWithParent(): void {
  if (process.env[CHILD] !== '1' || process.channel === undefined) return;
  process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'));
  process.channel.unref();
}

/** In a child: tells where the run is. */
export function tellFolder(directory: string): void {
  if (process.env[CHILD] === '1') process.send?.({ run: directory });
}
