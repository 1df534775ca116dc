/** Signals: the first asks the command to stop cleanly, the second ends the process. */
import { exitNow } from '../engine/exit';
import { AcoerError, errorCode } from '../errors';
import { STOP_SIGNALS } from '../signals';
import { hangUpIgnored } from './early-signals';
import { outliveOutput } from './pipes';

/**
 * What people send. The others come several times without anyone being impatient: SIGHUP from the terminal
 * and from the shell when a window is closed, SIGXCPU every second.
 */
const AT_ONCE: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGQUIT'];

/** npm and timeout(1) pass on a signal that their child got as well. */
const SAME_SIGNAL_MS = 100;

/** Runs `work`. The first signal that asks to end calls `onFirst`, the second ends the process at once. */
export async function untilSecondSignal<T>(onFirst: () => void, work: () => Promise<T>): Promise<T> {
  let first: { name: NodeJS.Signals; atMs: number } | null = null;
  const onSignal = (name: NodeJS.Signals): void => {
    const atMs = performance.now();
    if (first === null) {
      first = { name, atMs };
      // The terminal may be gone.
      outliveOutput();
      onFirst();
      return;
    }
    const same = name === first.name && atMs - first.atMs < SAME_SIGNAL_MS;
    if (AT_ONCE.includes(name) && !same) exitNow(130);
  };
  const names = STOP_SIGNALS.filter((name) => name !== 'SIGHUP' || !hangUpIgnored);
  for (const name of names) process.on(name, onSignal);
  try {
    return await work();
  } finally {
    for (const name of names) process.off(name, onSignal);
  }
}

/**
 * Runs `work` with a signal that aborts when the process is asked to end. If it was aborted, throws INTERRUPTED (exit
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
