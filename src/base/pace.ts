import { setImmediate as nextTurn } from 'node:timers/promises';

/** Well below the 50 ms for which nothing may block the event loop, to leave room for one long text. */
const BUDGET_MS = 10;

/** Breaks up long work on the main thread, so that signals, timers and engine results get their turn. */
export class Pace {
  private since = performance.now();

  /** Call it between pieces of work. Yields to the event loop if the current turn has used up its time. */
  async turn(): Promise<void> {
    if (performance.now() - this.since < BUDGET_MS) return;
    await nextTurn();
    this.since = performance.now();
  }
}
