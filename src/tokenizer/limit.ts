/** A limit on the time that synchronous work may take. */
import { createContext, Script } from 'node:vm';

const call = new Script('work()');
const place: { work: (() => unknown) | null } = { work: null };
createContext(place);

/**
 * `work()`, ended with an error of code ERR_SCRIPT_EXECUTION_TIMEOUT after `limitMs`. It may be anything that runs on
 * this thread, a regular expression that backtracks without end among it.
 */
export function withinTime<T>(limitMs: number, work: () => T): T {
  place.work = work;
  try {
    return call.runInContext(place, { timeout: limitMs }) as T;
  } finally {
    place.work = null;
  }
}
