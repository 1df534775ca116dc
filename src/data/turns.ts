/** Long loops that leave the event loop its turns. */
import { setImmediate } from 'node:timers/promises';

const MAX_BLOCK_MS = 10;

/** `if (turns.due()) await turns.give();` in a loop keeps others waiting for about 10 ms at most. */
export class Turns {
  private resumedMs = performance.now();

  constructor(private readonly signal?: AbortSignal) {}

  due(): boolean {
    return performance.now() - this.resumedMs > MAX_BLOCK_MS;
  }

  /** Throws the signal's reason when it has fired. */
  async give(): Promise<void> {
    await setImmediate();
    this.signal?.throwIfAborted();
    this.resumedMs = performance.now();
  }
}
