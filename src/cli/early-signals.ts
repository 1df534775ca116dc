/**
 * Signals before a command handles any, from the first moment at which there can be a listener: the first
 * import of main.ts.
 */
// eslint-disable-next-line no-restricted-imports -- reads /proc only, before anything else is loaded
import { readFileSync, readlinkSync } from 'node:fs';
import { basename } from 'node:path';

// Without a listener, Node opens a debugger's port.
process.on('SIGUSR1', () => {
  if (process.listenerCount('SIGUSR1') === 1) process.exit(130);
});

const WRITE_ONLY = 1;

/**
 * Whether nohup started this process. Node resets ignored signals when it starts, so what nohup leaves has to
 * tell: the shell's variable `_` names the program that it started, and a terminal as stdin is replaced by a
 * /dev/null that cannot be read.
 */
function startedByNohup(): boolean {
  if (basename(process.env._ ?? '') === 'nohup') return true;
  try {
    const flags = /^flags:\s*([0-7]+)/m.exec(readFileSync('/proc/self/fdinfo/0', 'utf8'))?.[1] ?? '0';
    return readlinkSync('/proc/self/fd/0') === '/dev/null' && (parseInt(flags, 8) & 3) === WRITE_ONLY;
  } catch {
    return false; // no stdin, or no /proc
  }
}

/** SIGHUP is ignored, as nohup asked. */
export const hangUpIgnored = startedByNohup();
if (hangUpIgnored) process.on('SIGHUP', () => undefined);
