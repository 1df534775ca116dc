/**
 * How the process ends: with exit code 0 only once its command is done. A promise that nothing will ever settle leaves
 * Node without work, and it would end with 0; code of the user's may call `process.exit(0)`.
 */
import { errorMessage } from '../base/errors';
import { printNote } from './output';

let done = false;
let stray = false;

/** Ends the process on purpose, before the command is done. */
export function endNow(code: number): never {
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
