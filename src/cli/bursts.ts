/** Reading what has arrived of an input that may be a file, a pipe, or a program that waits for its answers. */

const QUIET = Symbol('quiet');

function quietAfter(ms: number): { promise: Promise<typeof QUIET>; cancel: () => void } {
  let timer: NodeJS.Timeout;
  const promise = new Promise<typeof QUIET>((resolve) => {
    timer = setTimeout(() => resolve(QUIET), ms);
  });
  return { promise, cancel: () => clearTimeout(timer) };
}

/**
 * The items in the bursts they come in: each ends when nothing came for `quietMs`, and with the input. An error of
 * the input is thrown before the burst it belongs to is given out.
 */
export async function* bursts<Item>(
  items: AsyncIterator<Item>,
  quietMs: number,
): AsyncGenerator<Item[], void> {
  let burst: Item[] = [];
  let next = items.next();
  for (;;) {
    // While a burst is given out nobody awaits `next`: its error must not count as unhandled meanwhile.
    next.catch(() => undefined);
    const quiet = quietAfter(quietMs);
    const result = await Promise.race(burst.length > 0 ? [next, quiet.promise] : [next]).finally(
      quiet.cancel,
    );
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
