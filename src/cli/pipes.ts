/** Handles a stdout or stderr that can no longer be written. */
import { writeSync } from 'node:fs';
import { whyUnwritten } from '../base/errors';
import { endNow } from './ending';

let watching = false;
let surviving = false;

/**
 * Ends the process when its output can no longer be written. The reader of a pipe may leave early
 * (`acoer ... | head`); that is not an error.
 */
export function endWithOutput(): void {
  if (watching) return;
  watching = true;
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
