import { setImmediate as nextTurn } from 'node:timers/promises';

/** Well under the 50 ms that nothing may block the event loop for: one long text may come on top. */
const BUDGET_MS = 10;

/** Breaks up long work on the main thread: signals, timers and the engine's results get their turn in between. */
export class Pace {
  private since = performance.now();

  /** Call it between two pieces of work. Waits for a turn of the event loop when this one has taken its time. */
  async turn(): Promise<void> {
    if (performance.now() - this.since < BUDGET_MS) return;
    await nextTurn();
    this.since = performance.now();
  }
}
