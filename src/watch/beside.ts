/** The live page of a run in progress, from a process of its own: the run's thread is busy for long stretches. */
import { fork } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** From the process that serves. */
export type FromServer = { address: string } | { problem: string };

const ENTRY = join(__dirname, 'child.js');

/**
 * Serves the page of `run` until this process ends, however it ends. Never fails: the run continues without it.
 * @param listening called once with the address
 * @param failed called with one sentence if the page cannot be served
 */
export function watchBeside(
  run: string,
  listening: (address: string) => void,
  failed: (message: string) => void,
): void {
  if (!existsSync(ENTRY)) return failed('The live page needs the compiled program: run npm run build:ts.');
  const child = fork(ENTRY, [run], { execArgv: [], stdio: 'ignore', serialization: 'json' });
  let told = false;
  child.on('message', (message: FromServer) => {
    told = true;
    if ('address' in message) listening(message.address);
    else failed(message.problem);
  });
  child.on('error', (error) => failed(`The live page could not be started: ${error.message}`));
  child.on('exit', (code, signal) => {
    if (!told) failed(`The live page could not be started: its process ended with ${signal ?? code}.`);
  });
  // The run does not wait for the page.
  child.unref();
  child.channel?.unref();
}
