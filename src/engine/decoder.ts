/** An open decoder over the addon: requests that arrive while others decode. */
import { AcoerError, errorCode } from '../base/errors';
import type { NativeDecoderEvent, NativeEngine, NativeGenerateRequest } from './binding';
import { callSite, engineError, type CallSite } from './errors';
import type { Calls } from './calls';
import { ADD_OPTIONS, needOptions, needRequest } from './options';
import type {
  AddedRequest,
  AddOptions,
  CallOptions,
  Decoder,
  GeneratedSequence,
  GenerateRequest,
  GenerateStats,
} from './types';

/** What is known of a request that has not ended. */
interface Pending extends AddOptions {
  sequences: GeneratedSequence[];
  /** Samples still to come. */
  left: number;
  resolve(sequences: GeneratedSequence[]): void;
  reject(error: unknown): void;
  forgetSignal(): void;
  site: CallSite;
}

type Arguments = Omit<Parameters<NativeEngine['openDecoder']>[0], 'job'>;

export class NativeDecoder implements Decoder {
  private readonly pending = new Map<number, Pending>();
  private nextId = 0;
  /** Of the call that lasts until the decoder is closed. */
  private job = 0;
  private ended: Promise<GenerateStats> | undefined;
  private closed = false;

  private constructor(
    private readonly calls: Calls,
    private readonly complete: (request: GenerateRequest) => NativeGenerateRequest,
  ) {}

  /** Resolves when it takes requests: after earlier calls, and once there is room. */
  static async open(
    calls: Calls,
    args: Arguments,
    complete: (request: GenerateRequest) => NativeGenerateRequest,
    options: CallOptions,
  ): Promise<NativeDecoder> {
    const decoder = new NativeDecoder(calls, complete);
    let onOpen!: () => void;
    const opened = new Promise<void>((resolve) => {
      onOpen = resolve;
    });
    decoder.ended = calls.run((native, job) => {
      decoder.job = job;
      return native.openDecoder({ ...args, job }, (event) =>
        event.kind === 'open' ? onOpen() : decoder.onEvent(event),
      );
    }, options);
    decoder.ended.catch((error: unknown) => decoder.fail(error));
    await Promise.race([opened, decoder.ended]);
    return decoder;
  }

  add(request: GenerateRequest, options: AddOptions = {}): AddedRequest {
    needRequest(request, 'the request');
    needOptions(options, 'add', ADD_OPTIONS);
    if (this.closed) throw new AcoerError('DISPOSED', 'the decoder was closed; open another one');
    const site = callSite();
    const complete = this.complete(request);
    const streams = options.onTokens !== undefined;
    this.calls.native.addRequests({ job: this.job, requests: [complete], streams });
    const id = this.nextId++;
    const sequences = new Promise<GeneratedSequence[]>((resolve, reject) => {
      this.pending.set(id, {
        ...options,
        sequences: [],
        left: complete.numSamples,
        resolve,
        reject,
        forgetSignal: this.cancelOn(options.signal, id),
        site,
      });
    });
    // close() fails with it as well, so whoever waits for that only need not look here.
    sequences.catch(() => undefined);
    return { id, sequences };
  }

  cancel(id: number): void {
    if (this.pending.has(id))
      this.tell(() => this.calls.native.cancelRequest({ job: this.job, request: id }));
  }

  async close(): Promise<GenerateStats> {
    if (!this.closed) {
      this.closed = true;
      this.tell(() => this.calls.native.closeDecoder({ job: this.job }));
    }
    return this.ended!;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** The call may have ended, and its result may still be on its way. */
  private tell(call: () => void): void {
    try {
      call();
    } catch (error) {
      if (errorCode(error) !== 'DISPOSED') throw error;
    }
  }

  private cancelOn(signal: AbortSignal | undefined, id: number): () => void {
    if (signal === undefined) return () => undefined;
    const onAbort = () => this.cancel(id);
    // Not before add() has returned, so that there is something to cancel.
    if (signal.aborted) queueMicrotask(onAbort);
    signal.addEventListener('abort', onAbort, { once: true });
    return () => signal.removeEventListener('abort', onAbort);
  }

  private onEvent(event: Exclude<NativeDecoderEvent, { kind: 'open' }>): void {
    const id = event.kind === 'sequence' ? event.sequence.request : event.request;
    const request = this.pending.get(id);
    if (request === undefined) return;
    if (event.kind === 'refused') return this.reject(id, engineError(event.error, request.site));
    try {
      if (event.kind === 'sequence') {
        request.sequences.push(event.sequence);
        request.left -= 1;
        request.onSequence?.(event.sequence);
      } else {
        const { sample, ids, logprobs } = event;
        request.onTokens?.({ sample, ids, logprobs });
      }
    } catch (error) {
      this.cancel(id);
      return this.reject(id, error);
    }
    if (request.left > 0) return;
    this.pending.delete(id);
    request.forgetSignal();
    request.resolve(request.sequences.sort((a, b) => a.sample - b.sample));
  }

  private reject(id: number, error: unknown): void {
    const request = this.pending.get(id);
    this.pending.delete(id);
    request?.forgetSignal();
    request?.reject(error);
  }

  /** The call has failed, and with it every request. */
  private fail(error: unknown): void {
    this.closed = true;
    for (const id of [...this.pending.keys()]) this.reject(id, error);
  }
}
