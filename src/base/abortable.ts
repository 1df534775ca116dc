import { errorCode } from './errors';

/** Waits for `work`, but rejects as soon as `signal` aborts, whatever becomes of the work. */
export async function abortable<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  let onAbort = () => undefined as void;
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => reject(signal.reason as Error);
  });
  signal.addEventListener('abort', onAbort);
  if (signal.aborted) onAbort();
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
    // Nobody waits any more: a late failure must not count as unhandled.
    work.catch(() => undefined);
  }
}

/** Whether `error` is what a call throws whose signal has aborted: the engine's CANCELLED, or the platform's AbortError. */
export const isCancellation = (error: unknown): boolean =>
  errorCode(error) === 'CANCELLED' || (error as Error | undefined)?.name === 'AbortError';
