/** Signals and uncaught errors: the first stops the command cleanly, the second ends the process. */
import { once } from 'node:events';
import { writeSync } from 'node:fs';
import { isCancellation } from '../base/abortable';
import { awakeTimer } from '../base/deadline';
import { exitNow } from '../engine/exit';
import { AcoerError, errorCode, errorMessage } from '../base/errors';
import { STOP_SIGNALS } from '../base/signals';
import { isStuck } from '../train';
import { hangUpIgnored } from './early-signals';
import { noteStray, outliveOutput } from './ending';
import { stopReading } from './jsonl';

/**
 * What people send. The others come several times without anyone being impatient: SIGHUP from the terminal
 * and from the shell when a window is closed, SIGXCPU every second.
 */
const AT_ONCE: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGQUIT'];

/** npm and timeout(1) pass on a signal that their child got as well. */
const SAME_SIGNAL_MS = 100;

/** What the error broke may be what the command waits for, so it does not get longer than this to save its state. */
const STRAY_MS = 120_000;

/**
 * Runs `work`. The first signal that asks to end calls `onFirst`, the second ends the process at once. An error that
 * nothing caught, as from a timer or an unawaited promise, is such a first signal, but the exit code is then 1.
 */
export async function untilSecondSignal<T>(onFirst: () => void, work: () => Promise<T>): Promise<T> {
  let first: { name: NodeJS.Signals; atMs: number } | null = null;
  const onSignal = (name: NodeJS.Signals): void => {
    const atMs = performance.now();
    if (first === null) {
      first = { name, atMs };
      // The terminal may be gone.
      outliveOutput();
      onFirst();
      stopReading();
      return;
    }
    const same = name === first.name && atMs - first.atMs < SAME_SIGNAL_MS;
    if (AT_ONCE.includes(name) && !same) exitNow(130);
  };
  let stray = false;
  let endStray = () => undefined as void;
  const onStray = (error: unknown): void => {
    noteStray(error);
    if (stray) return;
    stray = true;
    endStray = awakeTimer(STRAY_MS, () => exitNow(1));
    if (first !== null) return;
    onFirst();
    stopReading();
  };
  process.on('uncaughtException', onStray);
  const names = STOP_SIGNALS.filter((name) => name !== 'SIGHUP' || !hangUpIgnored);
  for (const name of names) process.on(name, onSignal);
  try {
    return await work();
  } catch (error) {
    if (stray && errorCode(error) === 'INTERRUPTED') {
      throw new AcoerError('INTERNAL', errorMessage(error), { cause: error });
    }
    throw error;
  } finally {
    endStray();
    process.off('uncaughtException', onStray);
    for (const name of names) process.off(name, onSignal);
  }
}

/**
 * Runs `work` with a signal that aborts when the process is asked to end. `asked`: it was, and `work` returned all the
 * same. @throws INTERRUPTED (exit 130) if it was and `work` failed with nothing but a cancellation
 */
async function untilAsked<T>(
  work: (signal: AbortSignal) => Promise<T>,
): Promise<{ result: T; asked: boolean }> {
  const controller = new AbortController();
  const { signal } = controller;
  try {
    const result = await untilSecondSignal(
      () => controller.abort(),
      () => work(signal),
    );
    return { result, asked: signal.aborted };
  } catch (error) {
    if (!signal.aborted || !isCancellation(error)) throw error;
    throw new AcoerError('INTERRUPTED', 'interrupted', { cause: error });
  }
}

/** Runs work that is not done when the process is asked to end. @throws INTERRUPTED (exit 130) if it was */
export async function interruptible<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const { result, asked } = await untilAsked(work);
  if (asked) throw new AcoerError('INTERRUPTED', 'interrupted');
  return result;
}

/** Runs a server: once it serves, being asked to end is how its work is done (exit 0). @throws INTERRUPTED before */
export async function serving(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  await untilAsked(work);
}

/** Resolves when the process is asked to end. */
export async function untilAborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort');
}

/** A hung engine call, or one to a lost rank, would make the process wait forever; every file on disk is intact. */
export function endIfStuck(error: unknown): void {
  if (!isStuck(error) && errorCode(error) !== 'RANK_LOST') return;
  try {
    writeSync(process.stderr.fd, `acoer: ${errorMessage(error)}\n`);
  } finally {
    exitNow(1);
  }
}
