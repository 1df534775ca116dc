/** Ending a run from outside: by a request to stop, or by the caller's signal. */
import { isCancellation } from '../base/abortable';

/** How long a step may continue after a request to stop; step and checkpoint together must fit into 5 s. */
const STOP_GRACE_MS = 2_500;

export class Halt {
  private readonly soon = new AbortController();
  private readonly now = new AbortController();
  private deadline: NodeJS.Timeout | undefined;
  private asked = false;
  /** What the run ends with; null: nothing has failed from outside. */
  failure: Error | null = null;

  constructor(private readonly signal?: AbortSignal) {
    signal?.addEventListener('abort', this.onAbort);
    if (signal?.aborted) this.onAbort();
  }

  private readonly onAbort = () => {
    this.soon.abort(this.signal?.reason);
    this.now.abort(this.signal?.reason);
  };

  /** Ends the run with a checkpoint after the step in progress, or without that step if it takes too long. */
  stop(): void {
    this.asked = true;
    this.soon.abort();
    this.deadline ??= setTimeout(() => this.now.abort(), STOP_GRACE_MS).unref();
  }

  /** Ends the run at once and saves what can still be saved. */
  hang(error: Error): void {
    this.soon.abort(error);
    this.now.abort(error);
  }

  /** Ends the run at once with this error, whatever the calls that it aborts throw. */
  fail(error: Error): void {
    this.failure ??= error;
    this.hang(error);
  }

  /** The run must end after the step in progress. */
  get stopping(): boolean {
    return this.asked;
  }

  /** Aborts on `stop` and on the caller's signal: ends evaluations and waits at once. */
  get waiting(): AbortSignal {
    return this.soon.signal;
  }

  /** Aborts on the caller's signal, and some time after `stop`: ends the step in progress. */
  get step(): AbortSignal {
    return this.now.signal;
  }

  /** Whether this halt caused `error`. Aborted calls throw one of several errors. */
  caused(error: unknown): boolean {
    const reason = this.now.signal.aborted && error === this.now.signal.reason;
    return this.soon.signal.aborted && (isCancellation(error) || reason);
  }

  dispose(): void {
    clearTimeout(this.deadline);
    this.signal?.removeEventListener('abort', this.onAbort);
  }
}
