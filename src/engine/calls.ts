/** What every call of one engine shares: job numbers, AbortSignal, ENGINE_BUSY and error wrapping. */
import { AcoerError, errorCode } from '../errors';
import type { NativeEngine } from './binding';
import { callSite, engineError } from './errors';
import type { CallOptions } from './types';

export class Calls {
  private nextJob = 1;
  private pending = 0;

  constructor(readonly native: NativeEngine) {}

  /** Runs `call` with a new job number; an abort cancels the job, running or waiting. */
  async run<T>(
    call: (native: NativeEngine, job: number) => Promise<T>,
    { signal, queue = true }: CallOptions = {},
  ): Promise<T> {
    const site = callSite();
    const aborted = (): boolean => signal?.aborted === true;
    if (aborted()) {
      throw engineError(new AcoerError('CANCELLED', 'the call was cancelled'), site, signal?.reason);
    }
    if (!queue && this.pending > 0) {
      throw engineError(
        new AcoerError('ENGINE_BUSY', `the engine is busy with ${this.pending} call(s) and queue is false`),
        site,
      );
    }
    const job = this.nextJob++;
    const cancel = (): void => this.native.cancel(job);
    signal?.addEventListener('abort', cancel, { once: true });
    this.pending++;
    try {
      return await call(this.native, job);
    } catch (error) {
      const cause: unknown = errorCode(error) === 'CANCELLED' && aborted() ? signal?.reason : error;
      throw engineError(error, site, cause);
    } finally {
      this.pending--;
      signal?.removeEventListener('abort', cancel);
    }
  }

  /** Runs a call that frees something; an engine that is gone has freed it already. */
  async free(call: (native: NativeEngine) => Promise<void>): Promise<void> {
    try {
      await this.run(call);
    } catch (error) {
      if (errorCode(error) !== 'DISPOSED') throw error;
    }
  }
}

/** Frees what a collected model or policy object held natively. */
export const collected = new FinalizationRegistry<() => Promise<void>>((free) => void free());
