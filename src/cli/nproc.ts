/**
 * `--nproc N`: the command again in N processes of this machine, which are its ranks. The terminal shows rank 0; what the
 * others print is in `ranks/K.log` of a run, else it is shown at the end. They end with this process, however it ends.
 * When one fails, all end, and are started again up to `--max-restarts` times.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { createWriteStream, existsSync, mkdirSync, type WriteStream } from 'node:fs';
import { createServer } from 'node:net';
import { constants } from 'node:os';
import { join } from 'node:path';
import type { Command } from 'commander';
import { AcoerError, badUsage } from '../base/errors';
import { isRecord } from '../base/json';
import { CHILD_ENVIRONMENT, type Told } from '../base/parent';
import { printableLine } from '../base/printable';
import { STOP_SIGNALS } from '../base/signals';
import { launchOf } from '../ranks';
import { integer } from './command';
import { printNote } from './output';

const LOOPBACK = '127.0.0.1';
/** Refused, or asked to stop: starting again would not help, or is not wanted. */
const FINAL_EXITS: readonly number[] = [2, 130];
/** Errors with which a guard of the run has ended it, for somebody to look. */
const GUARDS: readonly unknown[] = ['COLLAPSED', 'NOT_FINITE'];
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

/** @param verb what the processes do */
export const addNprocOption = (command: Command, verb: string): Command =>
  command.option('--nproc <n>', `${verb} with so many processes of this machine (docs/ranks.md)`, integer(1));

export interface RanksFlags {
  nproc?: number;
  maxRestarts?: number;
}

/** @param verb what the processes do */
export const addRanksOptions = (command: Command, verb: string): Command =>
  addNprocOption(command, verb).option(
    '--max-restarts <n>',
    'with --nproc: when a rank fails, start all again, so many times (default: 0)',
    integer(0),
  );

/** Works in `--nproc` processes, or by `here` in this one. What can be refused should have been. */
export async function inProcesses(
  { nproc = 1, maxRestarts }: RanksFlags,
  here: () => Promise<void>,
): Promise<void> {
  if (nproc > 1) process.exitCode = await runRanks(nproc, maxRestarts);
  else if (maxRestarts !== undefined) throw badUsage('--max-restarts goes with --nproc of 2 or more.');
  else await here();
}

const OWN_OPTIONS = ['--nproc', '--max-restarts'];

/** The words of a rank's command line, which are those of this process without its own options. */
export function wordsOfRank(words: readonly string[]): string[] {
  const own = (word: string | undefined): boolean => word !== undefined && OWN_OPTIONS.includes(word);
  const joined = (word: string): boolean => OWN_OPTIONS.some((option) => word.startsWith(`${option}=`));
  return words.filter((word, i) => !own(word) && !own(words[i - 1]) && !joined(word));
}

/** What a rank prints: kept until the run has a folder, then in a file of it. */
class Output {
  private kept = '';
  private folder: string | null = null;
  private file: WriteStream | null = null;

  constructor(private readonly rank: number) {}

  add(text: string): void {
    if (this.file !== null) this.file.write(text);
    else this.kept = `${this.kept}${text}`.slice(-KEPT_CHARS);
  }

  /** @param directory of the run */
  into(directory: string): void {
    const folder = join(directory, 'ranks');
    if (folder === this.folder && this.file !== null) return;
    this.file?.end();
    this.folder = folder;
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
  const words = [...process.execArgv, process.argv[1]!, ...wordsOfRank(process.argv.slice(2))];
  const child = spawn(process.execPath, words, {
    env: { ...process.env, ...shared, ...own, ...CHILD_ENVIRONMENT },
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
  // One that is stopped could not end: it wakes, and sees that the others have given it up.
  signal('SIGCONT')();
  setTimeout(signal('SIGTERM'), GRACE_MS).unref();
  setTimeout(signal('SIGKILL'), GRACE_MS + LAST_MS).unref();
}

/** The first rank that failed. */
interface Failure {
  /** In words. */
  what: string;
  /** Without a word of its own. */
  killed: boolean;
  /** Whether the ranks may be started again. */
  passing: boolean;
}

interface Ended {
  /** That of rank 0, or of another that failed. */
  code: number;
  failure: Failure | null;
}

function failureOf(rank: number, child: ChildProcess, failed: unknown): Failure {
  const { signalCode } = child;
  const code = codeOf(child);
  return {
    what: `rank ${rank} ${signalCode === null ? `ended with exit code ${code}` : `was killed by ${signalCode}`}`,
    killed: signalCode !== null,
    passing: !FINAL_EXITS.includes(code) && !GUARDS.includes(failed),
  };
}

/** The ranks as processes of this one, which may live several times. */
class LocalRanks {
  private children: ChildProcess[] = [];
  private readonly outputs: readonly Output[];
  /** The run's folder. */
  private run: string | null = null;
  private asked = false;

  constructor(private readonly size: number) {
    this.outputs = Array.from({ length: size }, (_, rank) => new Output(rank));
    for (const name of STOP_SIGNALS) process.on(name, () => this.forward(name));
  }

  private forward(name: NodeJS.Signals): void {
    this.asked = true;
    this.children.forEach((child) => child.kill(name));
  }

  /** The run that the next ranks go on with: none while nothing is left of it that could be resumed. */
  get left(): string | null {
    return this.run !== null && existsSync(join(this.run, 'config.json')) ? this.run : null;
  }

  /** Starts all ranks, and waits until all have ended. */
  async live(): Promise<Ended> {
    const shared = {
      MASTER_ADDR: LOOPBACK,
      MASTER_PORT: String(await freePort()),
      ACOER_RANKS_TOKEN: randomBytes(32).toString('hex'),
      ACOER_RANKS_RUN: this.left ?? '',
    };
    const { size, outputs } = this;
    if (this.asked) return { code: FINAL_EXITS.at(-1)!, failure: null };
    this.children = outputs.map((output, rank) => startRank(rank, size, shared, output));
    let failure: Failure | null = null;
    const codes = await Promise.all(
      this.children.map(async (child, rank) => {
        const failed = await this.ended(child);
        const code = codeOf(child);
        if (code !== 0) {
          endOthers(this.children);
          if (!this.asked) failure ??= failureOf(rank, child, failed);
        }
        return code;
      }),
    );
    return { code: codes.find((code) => code !== 0) ?? 0, failure };
  }

  /** @returns the code of the error that it has told of */
  private ended(child: ChildProcess): Promise<unknown> {
    return new Promise((resolve, reject) => {
      let told: unknown;
      child.on('message', (message: Told) => {
        if (!isRecord(message)) return;
        told ??= message.failed;
        if (typeof message.run === 'string') this.into(message.run);
      });
      child.once('error', (cause) =>
        reject(new AcoerError('INTERNAL', `A rank could not be started: ${cause.message}`, { cause })),
      );
      child.once('close', () => resolve(told));
    });
  }

  private into(run: string): void {
    this.run = run;
    for (const output of this.outputs.slice(1)) output.into(run);
  }

  /** Shows what nobody can read in a file. */
  show(): void {
    this.outputs.forEach((output, rank) =>
      output.lines().forEach((line) => printNote(`rank ${rank}: ${line}`)),
    );
  }
}

/**
 * Runs this command as `size` ranks.
 * @param maxRestarts how often they are started again after one has failed
 * @returns the exit code: that of rank 0, or of another that failed
 * @throws BAD_CONFIG in a process that is a rank already
 */
export async function runRanks(size: number, maxRestarts = 0): Promise<number> {
  if (launchOf(process.env) !== null)
    throw badUsage('--nproc starts ranks itself, and this process is one already: leave it out.');
  const ranks = new LocalRanks(size);
  for (let restarts = 1; ; restarts++) {
    const { code, failure } = await ranks.live();
    const last = failure?.passing !== true || restarts > maxRestarts;
    if (last) {
      ranks.show();
      if (failure?.killed === true) printNote(`acoer: ${failure.what}`);
      return code;
    }
    const from = ranks.left === null ? '' : ` and go on with ${printableLine(ranks.left)}`;
    printNote(`acoer: ${failure.what}: all ranks start again${from} (restart ${restarts} of ${maxRestarts})`);
  }
}
