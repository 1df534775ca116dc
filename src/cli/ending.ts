/**
 * How the process ends: with exit code 0 only once its command is done, and when its output can no longer be written. A
 * promise that nothing will ever settle leaves Node without work, and it would end with 0; code of the user's may call
 * `process.exit(0)`.
 */
import { writeSync } from 'node:fs';
import { errorMessage, whyUnwritten } from '../base/errors';
import { printNote } from './output';

let done = false;
let stray = false;

/** Ends the process on purpose, before the command is done. */
function endNow(code: number): never {
  done = true;
  process.exit(code);
}

/** The command is done: from here on the exit code is what it says. */
export function commandDone(code: number): void {
  done = true;
  process.exitCode = code;
}

/** An error that nothing caught: from here on the process ends with 1, however it ends. */
export function noteStray(error: unknown): void {
  // A timer may throw again and again.
  if (stray) return;
  stray = true;
  process.on('exit', () => (process.exitCode = 1));
  printNote(`acoer: An error that nothing caught ends this command: ${errorMessage(error)}`);
}

/** @param command its name, for messages */
export function watchEnding(command: string): void {
  process.on('exit', (code) => {
    if (done || code !== 0) return;
    process.exitCode = 1;
    printNote(
      `acoer: ${command} did not finish: it still waits for an answer, and nothing is left in this process that could give one.`,
    );
  });
  // A command that can save something has a listener of its own (interrupt.ts).
  process.on('uncaughtException', (error) => {
    if (process.listenerCount('uncaughtException') > 1) return;
    noteStray(error);
    process.exit(1);
  });
}

let surviving = false;

/**
 * Ends the process when its output can no longer be written. The reader of a pipe may leave early
 * (`acoer ... | head`); that is not an error.
 */
export function endWithOutput(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      // A terminal that is gone also sends SIGHUP, which ends the command.
      if (surviving || (error.code === 'EIO' && stream.isTTY)) return;
      if (error.code === 'EPIPE') endNow(0);
      if (stream === process.stdout) tellLost(error);
      endNow(1);
    });
  }
}

/**
 * From here on the process survives the loss of its output. A run's results are in its files, so neither a
 * closed terminal or pipe nor a full disk under a redirected log may end it.
 */
export function outliveOutput(): void {
  surviving = true;
}

function tellLost(error: unknown): void {
  try {
    writeSync(process.stderr.fd, `acoer: Cannot write the output: ${whyUnwritten(error)}.\n`);
  } catch {
    // stderr is lost as well: the exit code has to say it.
  }
}
