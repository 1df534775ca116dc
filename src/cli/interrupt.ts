/** Ctrl-C: the first asks the command to stop cleanly, the second ends the process. */
import { exitNow } from '../engine/exit';
import { AcoerError, errorCode } from '../errors';

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/**
 * Runs `work` with a signal that aborts on SIGINT or SIGTERM. If it was aborted, throws INTERRUPTED (exit
 * 130) after `work` has returned or failed with nothing but a cancellation.
 */
export async function interruptible<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  const onSignal = (): void => {
    if (controller.signal.aborted) exitNow(130);
    controller.abort();
  };
  for (const name of SIGNALS) process.on(name, onSignal);
  try {
    const result = await work(controller.signal);
    if (controller.signal.aborted) throw new AcoerError('INTERRUPTED', 'interrupted');
    return result;
  } catch (error) {
    const cancelled =
      errorCode(error) === 'CANCELLED' || (error instanceof Error && error.name === 'AbortError');
    if (!controller.signal.aborted || !cancelled) throw error;
    throw new AcoerError('INTERRUPTED', 'interrupted', { cause: error });
  } finally {
    for (const name of SIGNALS) process.off(name, onSignal);
  }
}
