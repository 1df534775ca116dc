/** What all calls of an engine share: job numbers, order, AbortSignal, ENGINE_BUSY and error wrapping. */
import { AcoerError, errorCode } from '../base/errors';
import type { NativeEngine } from './binding';
import { callSite, engineError } from './errors';
import type { CallOptions } from './types';

const cancelled = (): AcoerError => new AcoerError('CANCELLED', 'the call was cancelled');

/** Throws if the call was aborted before its job reached the engine: cancelling has no effect then. */
function refuseAborted({ signal }: CallOptions): void {
  if (signal?.aborted === true) throw cancelled();
}

/** The jobs of each signal, which has one listener for all: Node warns of a leak when there are more than ten. */
class Cancelling {
  private readonly shared = new Map<AbortSignal, { jobs: Set<number>; onAbort: () => void }>();

  constructor(private readonly cancel: (job: number) => void) {}

  add(signal: AbortSignal, job: number): void {
    const known = this.shared.get(signal);
    if (known !== undefined) {
      known.jobs.add(job);
      return;
    }
    const jobs = new Set([job]);
    const onAbort = () => jobs.forEach((each) => this.cancel(each));
    signal.addEventListener('abort', onAbort, { once: true });
    this.shared.set(signal, { jobs, onAbort });
  }

  delete(signal: AbortSignal, job: number): void {
    const { jobs, onAbort } = this.shared.get(signal)!;
    jobs.delete(job);
    if (jobs.size > 0) return;
    signal.removeEventListener('abort', onAbort);
    this.shared.delete(signal);
  }
}

export class Calls {
  private nextJob = 1;
  private readonly pending = new Set<Promise<unknown>>();
  /** Settles when the last call that opens files has opened them; later calls wait for it. */
  private opening: Promise<unknown> | undefined;

  private readonly cancelling = new Cancelling((job) => this.native.cancel(job));

  constructor(readonly native: NativeEngine) {}

  /** Runs `call` with a new job number; an abort cancels the job, running or waiting. */
  run<T>(call: (native: NativeEngine, job: number) => Promise<T>, options: CallOptions = {}): Promise<T> {
    return this.start(async (job) => {
      if (this.opening !== undefined) {
        await this.opening;
        refuseAborted(options);
      }
      return call(this.native, job);
    }, options);
  }

  /** Like `run`, with files that `open` opens in its turn, since earlier calls may write them; closed afterwards. */
  runWithFiles<Files extends AsyncDisposable, T>(
    open: () => Promise<Files>,
    call: (native: NativeEngine, files: Files, job: number) => Promise<T>,
    options: CallOptions = {},
  ): Promise<T> {
    return this.start(async (job) => {
      const opened = Promise.allSettled(this.pending).then(open);
      const opening: Promise<void> = opened.then(
        () => this.opened(opening),
        () => this.opened(opening),
      );
      this.opening = opening;
      await using files = await opened;
      refuseAborted(options);
      return await call(this.native, files, job);
    }, options);
  }

  private opened(opening: Promise<unknown>): void {
    if (this.opening === opening) this.opening = undefined;
  }

  private async start<T>(
    begin: (job: number) => Promise<T>,
    { signal, queue = true }: CallOptions,
  ): Promise<T> {
    const site = callSite();
    const aborted = (): boolean => signal?.aborted === true;
    if (aborted()) throw engineError(cancelled(), site, signal?.reason);
    if (!queue && this.pending.size > 0) {
      throw engineError(
        new AcoerError(
          'ENGINE_BUSY',
          `the engine is busy with ${this.pending.size} call(s) and queue is false`,
        ),
        site,
      );
    }
    const job = this.nextJob++;
    if (signal !== undefined) this.cancelling.add(signal, job);
    const ending = begin(job);
    this.pending.add(ending);
    try {
      return await ending;
    } catch (error) {
      const cause: unknown = errorCode(error) === 'CANCELLED' && aborted() ? signal?.reason : error;
      throw engineError(error, site, cause);
    } finally {
      this.pending.delete(ending);
      if (signal !== undefined) this.cancelling.delete(signal, job);
    }
  }

  /** Runs a call that frees something; a disposed engine has freed it already. */
  async free(call: (native: NativeEngine) => Promise<void>): Promise<void> {
    try {
      await this.run(call);
    } catch (error) {
      if (errorCode(error) !== 'DISPOSED') throw error;
    }
  }
}

/** Frees the native memory of objects that nobody disposed of. */
const collected = new FinalizationRegistry<() => Promise<void>>((free) => void free());

/** What has native memory: freed once, by `dispose` or when it is garbage-collected. */
export abstract class NativeObject implements AsyncDisposable {
  protected disposed: Promise<void> | undefined;

  /** @param free must not hold this object */
  constructor(
    protected readonly calls: Calls,
    private readonly free: (native: NativeEngine) => Promise<void>,
  ) {
    collected.register(this, () => calls.free(free), this);
  }

  dispose(): Promise<void> {
    collected.unregister(this);
    this.disposed ??= this.calls.free(this.free);
    return this.disposed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }
}
