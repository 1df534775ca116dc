/** The runs of a sweep as processes: `acoer train`, each with a log of its own. They end when this process is gone. */
import { spawn, type ChildProcess } from 'node:child_process';
import { closeSync, existsSync, fstatSync, openSync, readSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { errorMessage } from '../base/errors';
import { isRecord } from '../base/json';
import { CHILD_ENVIRONMENT, type Told } from '../base/parent';
import { openRegularFileSync } from '../base/regular-file';
import { STOP_SIGNALS } from '../base/signals';
import { RunDirectory, writeFileAtomic } from '../run';
import { runPath, type SweepRun } from './folder';
import type { Ending } from './schedule';

/** How `acoer` is started: a program and its first words. */
export interface AcoerCommand {
  program: string;
  words: readonly string[];
}

export interface StartOptions {
  command: AcoerCommand;
  sweepPath: string;
  run: Pick<SweepRun, 'folder' | 'settings'>;
  /** CPU threads; null: the run's settings say how many. */
  threads: number | null;
}

export interface RunProcess {
  /** Asks it to save and end. */
  stop(): void;
  ended: Promise<Omit<Ending, 'collapsed'>>;
}

const logOf = (folder: string): string => `${folder}.log`;
export const settingsOf = (folder: string): string => `${folder}.yaml`;

const HEADER = '# Written by acoer sweep, which starts this run with these settings.\n';

/** What `acoer` is called with: a run that is there goes on under the same settings, which it compares with its own. */
function wordsOf(folder: string, threads: number | null): string[] {
  const resumed = existsSync(new RunDirectory(folder).config());
  return [
    ...['train', settingsOf(folder), resumed ? '--resume' : '--out', folder, '--json'],
    ...(threads === null ? [] : ['--threads', String(threads)]),
  ];
}

/** Of a log, to find its last message in. */
const TAIL_BYTES = 8 * 1024;

/** The last message of `acoer` in a log; null: there is none. */
function lastMessage(log: string): string | null {
  const handle = openRegularFileSync(log);
  try {
    const { size } = fstatSync(handle);
    const bytes = Buffer.alloc(Math.min(size, TAIL_BYTES));
    readSync(handle, bytes, 0, bytes.length, size - bytes.length);
    const lines = bytes.toString('utf8').split('\n');
    return lines.findLast((line) => line.startsWith('acoer: '))?.slice('acoer: '.length) ?? null;
  } finally {
    closeSync(handle);
  }
}

/** One that a signal has ended before it could handle any was asked to end, unless the signal is no request. */
function exitCodeOf({ exitCode, signalCode }: ChildProcess): number {
  if (exitCode !== null) return exitCode;
  if (signalCode === null) return 1;
  return (STOP_SIGNALS as readonly string[]).includes(signalCode) ? 130 : 128 + constants.signals[signalCode];
}

function endingOf(child: ChildProcess, told: Told, log: string): Omit<Ending, 'collapsed'> {
  const exitCode = exitCodeOf(child);
  const { failed, message } = told;
  const signal = exitCode > 128 && exitCode !== 130 ? `it was killed by ${child.signalCode}` : null;
  const said = typeof message === 'string' ? message : lastMessage(log);
  return {
    exitCode,
    killed: child.signalCode === 'SIGKILL',
    failure: typeof failed === 'string' ? failed : null,
    message: exitCode === 0 ? null : (signal ?? said ?? `it ended with exit code ${exitCode}`),
  };
}

function waited(child: ChildProcess, log: string): Promise<Omit<Ending, 'collapsed'>> {
  return new Promise((resolve) => {
    const told: Told = {};
    child.on('message', (message) => void (isRecord(message) && Object.assign(told, message)));
    child.once('error', (cause) => {
      // Also when a signal cannot be sent; only one that was never started has no end.
      if (child.pid !== undefined) return;
      const message = `it could not be started: ${errorMessage(cause)}`;
      resolve({ exitCode: 1, killed: false, failure: null, message });
    });
    child.once('close', () => resolve(endingOf(child, told, log)));
  });
}

/** Writes the run's settings beside its folder and starts it, anew or where it stopped. @throws the system's error */
export function startRun({ command, sweepPath, run, threads }: StartOptions): RunProcess {
  const folder = runPath(sweepPath, run);
  writeFileAtomic(settingsOf(folder), `${HEADER}${stringify(run.settings)}`);
  const log = openSync(logOf(folder), 'a');
  try {
    const child = spawn(command.program, [...command.words, ...wordsOf(folder, threads)], {
      env: { ...process.env, OMP_WAIT_POLICY: 'passive', ...CHILD_ENVIRONMENT },
      // To a file and not to this process: what a run prints must not depend on whether this process lives.
      stdio: ['ignore', log, log, 'ipc'],
      // In a group of its own: a terminal's Ctrl-C reaches the sweep only, which asks each run once.
      detached: true,
    });
    return { stop: () => void child.kill('SIGTERM'), ended: waited(child, logOf(folder)) };
  } finally {
    closeSync(log);
  }
}

/** The log of a run, for people. */
export const runLog = (sweepPath: string, run: Pick<SweepRun, 'folder'>): string =>
  logOf(join(sweepPath, run.folder));
