/** Handles a stdout or stderr that can no longer be written. */
let watching = false;
let surviving = false;

/** The reader of a pipe may leave early (`acoer ... | head`); that is not an error. */
export function endQuietlyOnClosedPipe(): void {
  if (watching) return;
  watching = true;
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      // A terminal that is gone also sends SIGHUP, which ends the command.
      if (surviving || (error.code === 'EIO' && stream.isTTY)) return;
      if (error.code !== 'EPIPE') throw error;
      process.exit(0);
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
