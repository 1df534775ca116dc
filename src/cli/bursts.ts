/** Reads whatever has arrived of an input: a file, a pipe, or a program that waits for its answers. */
import { setTimeout } from 'node:timers/promises';

const QUIET = Symbol('quiet');

/**
 * The items in bursts as they arrive. A burst ends when nothing has come for `quietMs`, or when the input
 * ends. If the input fails, the error is thrown before the current burst is yielded.
 */
export async function* bursts<Item>(
  items: AsyncIterator<Item>,
  quietMs: number,
): AsyncGenerator<Item[], void> {
  let burst: Item[] = [];
  let next = items.next();
  for (;;) {
    // While a burst is being consumed nobody awaits `next`, so mark a rejection of it as handled.
    next.catch(() => undefined);
    const came = new AbortController();
    const quiet = setTimeout(quietMs, QUIET, { signal: came.signal });
    quiet.catch(() => undefined);
    const result = await Promise.race(burst.length > 0 ? [next, quiet] : [next]).finally(() => came.abort());
    if (result === QUIET) {
      yield burst;
      burst = [];
    } else if (result.done === true) {
      if (burst.length > 0) yield burst;
      return;
    } else {
      burst.push(result.value);
      next = items.next();
    }
  }
}
