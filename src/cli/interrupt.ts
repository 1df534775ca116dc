/** Ctrl-C: the first asks the command to stop cleanly, the second ends the process. */
import { exitNow } from '../engine/exit';
import { AcoerError, errorCode } from '../errors';

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** Runs `work`. The first SIGINT or SIGTERM calls `onFirst`, the second ends the process at once. */
export async function untilSecondSignal<T>(onFirst: () => void, work: () => Promise<T>): Promise<T> {
  let asked = false;
  const onSignal = (): void => {
    if (asked) exitNow(130);
    asked = true;
    onFirst();
  };
  for (const name of SIGNALS) process.on(name, onSignal);
  try {
    return await work();
  } finally {
    for (const name of SIGNALS) process.off(name, onSignal);
  }
}

/**
 * Runs `work` with a signal that aborts on SIGINT or SIGTERM. If it was aborted, throws INTERRUPTED (exit
 * 130) after `work` has returned or failed with nothing but a cancellation.
 */
export async function interruptible<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  const { signal } = controller;
  try {
    const result = await untilSecondSignal(
      () => controller.abort(),
      () => work(signal),
    );
    if (signal.aborted) throw new AcoerError('INTERRUPTED', 'interrupted');
    return result;
  } catch (error) {
    const cancelled =
      errorCode(error) === 'CANCELLED' || (error instanceof Error && error.name === 'AbortError');
    if (!signal.aborted || !cancelled) throw error;
    throw new AcoerError('INTERRUPTED', 'interrupted', { cause: error });
  }
}
