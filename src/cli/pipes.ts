/** What happens when stdout or stderr can no longer be written. */
let watching = false;
let surviving = false;

/** The reader of a pipe may leave early (`acoer ... | head`): nobody is left to tell. */
export function endQuietlyOnClosedPipe(): void {
  if (watching) return;
  watching = true;
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (surviving) return;
      if (error.code !== 'EPIPE') throw error;
      process.exit(0);
    });
  }
}

/**
 * From here on the process outlives its output: what a run is for is in its files, and neither a closed terminal or pipe
 * nor a full disk behind a log may end it.
 */
export function outliveOutput(): void {
  surviving = true;
}
