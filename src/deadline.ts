/** Time limits of which only the time counts in which this process ran: not while it was stopped or the machine slept. */
import { createContext, Script } from 'node:vm';

const SLICE_MS = 1_000;

/** Calls `expired` after `limitMs`, of which no pause of the process takes more than a fifth or a second. Returns what takes it back. */
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

/** What the script calls; a context of its own, since a time limit is one of scripts. */
const slot: { work: () => void } = { work: () => undefined };
const context = createContext(slot);
const script = new Script('work()');

type Outcome<T> = { value: T } | { error: unknown };

/** One try; null: its time was up. */
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

const ATTEMPTS = 3;
/** Of the time that is up, the share of a processor below which this process was stopped and not at work. */
const STOPPED_SHARE = 0.1;

/**
 * The result of `work`, or null when its code ran for longer than `limitMs`: then it was ended where it stood, in an
 * endless loop or a regular expression without end; none of its `catch` and `finally` ran. What `work` awaits does not
 * count. A call that was ended because the process was stopped meanwhile is made again. Costs a thread, some 0.1 ms; a
 * system call that blocks cannot be ended.
 */
export function withinTime<T>(limitMs: number, work: () => T): { value: T } | null {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const before = process.cpuUsage();
    const outcome = tryWithin(limitMs, work);
    if (outcome !== null) {
      if ('error' in outcome) throw outcome.error;
      return outcome;
    }
    const { user, system } = process.cpuUsage(before);
    if ((user + system) / 1000 >= STOPPED_SHARE * limitMs) return null;
  }
  return null;
}
