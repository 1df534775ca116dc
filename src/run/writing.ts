/** Writes a run's files on a disk that may be full, read-only or gone. */
import { setTimeout as wait } from 'node:timers/promises';
import { AcoerError, errorMessage, whyUnwritten, writeErrorCode } from '../base/errors';

export interface Patience {
  /** Time between two attempts on a full disk. */
  retryMs: number;
  /** Time on a full disk after which the run ends. */
  giveUpMs: number;
}

export const PATIENCE: Patience = { retryMs: 5_000, giveUpMs: 600_000 };

/** Whether `error` says that there is no space. */
export const isFull = (error: unknown) => ['ENOSPC', 'EDQUOT'].includes(writeErrorCode(error) ?? '');

/** Wraps `error` from writing `what` in one sentence; returns errors that are not disk failures unchanged. */
function writeFailure(what: string, error: unknown): unknown {
  if (writeErrorCode(error) === undefined) return error;
  const why = `${whyUnwritten(error)} (${errorMessage(error)})`;
  return new AcoerError('WRITE_FAILED', `Cannot write ${what}: ${why}.`, { cause: error });
}

/**
 * Calls `write`, which must be safe to repeat. While the disk is full the run waits, because nothing is lost
 * as long as its state is in memory; any other failure ends it.
 * @param signal ends the wait
 * @throws WRITE_FAILED
 */
export async function writePatiently<T>(
  what: string,
  write: () => T | Promise<T>,
  { retryMs, giveUpMs }: Patience,
  warn: (message: string) => void,
  signal: AbortSignal,
): Promise<T> {
  const begun = performance.now();
  for (let attempt = 1; ; attempt++) {
    try {
      return await write();
    } catch (error) {
      const waited = performance.now() - begun;
      if (!isFull(error) || signal.aborted || waited >= giveUpMs) throw writeFailure(what, error);
      if (attempt === 1) {
        const minutes = Math.ceil(giveUpMs / 60_000);
        warn(`Cannot write ${what}: the disk is full. The run will wait up to ${minutes} minutes for space.`);
      }
      // Aborted: try one last time, so that the error says what is wrong.
      await wait(retryMs, undefined, { signal }).catch(() => undefined);
    }
  }
}
