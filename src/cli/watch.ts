/** `acoer watch`: serves the live page of a run or of a folder of runs. */
import { hostname } from 'node:os';
import type { Command } from 'commander';
import { DEFAULT_PORT, openBrowser, startWatch } from '../watch';
import { integer } from './command';
import { interruptible, untilAborted } from './interrupt';
import { printNote, printText } from './output';

interface WatchFlags {
  port?: number;
  host?: string;
  open?: boolean;
}

export function define(command: Command): void {
  command
    .argument('[path]', 'a run, a folder of runs, or of a sweep', 'runs')
    .option(
      '--port <n>',
      `port to listen on (default: ${DEFAULT_PORT}, or the next one that is free)`,
      integer(0, 65_535),
    )
    .option('--host <name>', 'address to listen on for other machines, e.g. 0.0.0.0 (default: this one only)')
    .option('--open', 'open the page in the browser')
    .addHelpText(
      'after',
      `
Prints the address of a page that shows the runs while they train, until Ctrl-C.
The address contains a secret: whoever has it can read the runs. docs/watch.md
explains the page, SSH, and what is protected.`,
    )
    .action((path: string, flags: WatchFlags) => interruptible((signal) => watch(path, flags, signal)));
}

/** The command that makes the page readable on the machine at the other end of an SSH session. */
const forwarding = (port: number): string => `ssh -L ${port}:127.0.0.1:${port} ${hostname()}`;

async function watch(path: string, { port, host, open }: WatchFlags, signal: AbortSignal): Promise<void> {
  const server = await startWatch({ path, port, host });
  printText(server.address);
  if (host === undefined)
    printNote(`from another machine: ${forwarding(server.port)}, then open that address`);
  else
    printNote('Other machines can reach this page, unencrypted: whoever has the address can read the runs.');
  if (open === true) openBrowser(server.address, (message) => printNote(`warning: ${message}`));
  await untilAborted(signal);
  await server.close();
}
