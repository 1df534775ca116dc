/** Writing a run's files on a disk that may be full, read-only or gone. */
import { setTimeout as wait } from 'node:timers/promises';
import { AcoerError, errorCode, errorMessage } from '../errors';

export interface Patience {
  /** Between two attempts on a full disk. */
  retryMs: number;
  /** After so long on a full disk the run ends. */
  giveUpMs: number;
}

export const PATIENCE: Patience = { retryMs: 5_000, giveUpMs: 600_000 };

const CAUSES: Record<string, string> = {
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk quota is used up',
  EROFS: 'the file system is read-only',
  EACCES: 'no permission',
  EPERM: 'no permission',
  ENOENT: 'the folder has vanished',
  ENOTDIR: 'the folder has vanished',
  EIO: 'the disk reports an error',
};

/** The system's name of what failed; of the engine's errors only the message tells. */
function systemCode(error: unknown): string | undefined {
  const code = errorCode(error);
  if (code !== undefined && code in CAUSES) return code;
  const texts: [string, RegExp][] = [
    ['ENOSPC', /No space left on device/],
    ['EDQUOT', /Disk quota exceeded/],
    ['EROFS', /Read-only file system/],
    ['EACCES', /Permission denied/],
    ['ENOENT', /No such file or directory/],
    ['EIO', /Input\/output error/],
  ];
  return texts.find(([, text]) => text.test(errorMessage(error)))?.[0];
}

const isFull = (error: unknown) => ['ENOSPC', 'EDQUOT'].includes(systemCode(error) ?? '');

/** `error` of writing `what` as one sentence; an error that is no failure of the disk comes back as it is. */
function writeFailure(what: string, error: unknown): unknown {
  const code = systemCode(error);
  if (code === undefined) return error;
  return new AcoerError('WRITE_FAILED', `Cannot write ${what}: ${CAUSES[code]} (${errorMessage(error)}).`, {
    cause: error,
  });
}

/**
 * Does `write`, which must be harmless to repeat. While the disk is full the run waits, since nothing is lost as long as
 * it holds its state in memory; everything else ends it.
 * @param signal ends the waiting
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
        warn(`Cannot write ${what}: the disk is full. The run waits up to ${minutes} minutes for space.`);
      }
      // Aborted: one last attempt, whose error says what is wrong.
      await wait(retryMs, undefined, { signal }).catch(() => undefined);
    }
  }
}
