/** Time limits that count only the time in which this process ran, not while it was stopped or asleep. */
// eslint-disable-next-line no-restricted-imports -- reads /proc only
import { readFileSync } from 'node:fs';
import { createContext, Script } from 'node:vm';

const SLICE_MS = 1_000;

/** What may be a promise: the answer of a user's function. */
export type Work<T> = T | Promise<T>;

export const isPromise = <T>(work: Work<T>): work is Promise<T> =>
  typeof (work as { then?: unknown } | null)?.then === 'function';

/** The error of a call that took too long. */
export const late = (timeoutMs: number) => new Error(`no answer within ${timeoutMs} ms`);

/** Calls `expired` after `limitMs`, of which a pause of the process uses a fifth or a second at most; returns a cancel. */
export function awakeTimer(limitMs: number, expired: () => void): () => void {
  let leftMs = limitMs;
  let timer: NodeJS.Timeout;
  const wait = () => {
    const sliceMs = Math.min(leftMs, SLICE_MS, limitMs / 5);
    timer = setTimeout(() => {
      leftMs -= sliceMs;
      if (leftMs > 0) wait();
      else expired();
    }, sliceMs);
  };
  wait();
  return () => clearTimeout(timer);
}

/** What the script in its own context calls: only scripts take a time limit. */
const slot: { work: () => void } = { work: () => undefined };
const context = createContext(slot);
const script = new Script('work()');

/** The answer of `work`. @throws the error of `late` if it is a promise that takes longer than `timeoutMs` */
export async function withTimeout<T>(work: Work<T>, timeoutMs: number): Promise<T> {
  if (!isPromise(work)) return work;
  let cancel = () => undefined as void;
  const expired = new Promise<never>((_, reject) => {
    cancel = awakeTimer(timeoutMs, () => reject(late(timeoutMs)));
  });
  try {
    return await Promise.race([work, expired]);
  } finally {
    cancel();
  }
}

type Outcome<T> = { value: T } | { error: unknown };

/** One attempt; null when its time was up. */
function tryWithin<T>(limitMs: number, work: () => T): Outcome<T> | null {
  let outcome: Outcome<T> | null = null;
  const outer = slot.work;
  slot.work = () => {
    try {
      outcome = { value: work() };
    } catch (error) {
      outcome = { error };
    }
  };
  try {
    script.runInContext(context, { timeout: Math.ceil(limitMs) });
  } catch (error) {
    if (outcome === null && (error as { code?: unknown }).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT')
      throw error;
  } finally {
    slot.work = outer;
  }
  return outcome;
}

/** Processor time of this thread in ms; where the system does not tell, that of all threads. */
export function processorMs(): number {
  try {
    return Number(readFileSync('/proc/thread-self/schedstat', 'utf8').split(' ')[0]) / 1e6;
  } catch {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1000;
  }
}

const ATTEMPTS = 4;
/** A thread that used less than this fraction of the limit as processor time was kept from working. */
const WORKING_SHARE = 0.5;
/** How much longer the next attempt may take. */
const MOST_LONGER = 4;

/**
 * The result of `work`, or null when its synchronous code ran for longer than `limitMs`. It is then terminated
 * where it is, in an endless loop or a runaway regular expression, without running `catch` and `finally`. Time
 * that `work` awaits does not count. Where the process was stopped or others had the processor, `work` is called
 * again with as much more time. Costs a thread, about 0.1 ms; a blocking system call cannot be terminated.
 */
export function withinTime<T>(limitMs: number, work: () => T): { value: T } | null {
  let allowedMs = limitMs;
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const beforeMs = processorMs();
    const outcome = tryWithin(allowedMs, work);
    if (outcome !== null) {
      if ('error' in outcome) throw outcome.error;
      return outcome;
    }
    const usedMs = processorMs() - beforeMs;
    if (usedMs >= WORKING_SHARE * limitMs) return null;
    allowedMs *= Math.min(MOST_LONGER, limitMs / Math.max(usedMs, 1));
  }
  return null;
}
