/** One open decoder for all who ask a model at once, and its engine for other calls in between. */
import { errorCode } from '../base/errors';
import type {
  AddedRequest,
  AddOptions,
  Decoder,
  DecoderOptions,
  GenerateRequest,
  Model,
  Policy,
} from '../engine/types';

export interface BatcherOptions extends Pick<
  DecoderOptions,
  'positions' | 'maxSlots' | 'kvBytes' | 'kvCacheDtype' | 'numSpeculativeTokens' | 'keepBytes'
> {
  /** After so long without a request the decoder is closed, and the engine free for other calls. Infinity: never. */
  idleMs: number;
}

export class Batcher {
  private decoder: Promise<Decoder> | null = null;
  /** Requests wait for it: somebody has the engine, or will have it once the decoder has answered. */
  private gate: Promise<void> = Promise.resolve();
  private asking = 0;
  private idle: NodeJS.Timeout | undefined;

  constructor(
    private readonly model: Model,
    /** Those that may be asked now. */
    private readonly policies: () => readonly (Policy | null)[],
    private readonly options: BatcherOptions,
  ) {}

  /** @throws what opening a decoder throws, and BAD_ARGUMENT; `sequences` of what it returns is to be awaited */
  async add(request: GenerateRequest, options: AddOptions): Promise<AddedRequest> {
    clearTimeout(this.idle);
    this.asking++;
    try {
      const added = await this.admit(request, options);
      const ended = () => this.ended();
      added.sequences.then(ended, ended);
      return added;
    } catch (error) {
      this.ended();
      throw error;
    }
  }

  /** Runs `work` without a decoder, after what is being answered; later requests wait. */
  async exclusively<T>(work: () => Promise<T>): Promise<T> {
    const before = this.gate;
    let open!: () => void;
    this.gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    await before;
    try {
      await this.close();
      return await work();
    } finally {
      open();
    }
  }

  private async admit(request: GenerateRequest, options: AddOptions): Promise<AddedRequest> {
    for (;;) {
      await this.passGate();
      const opening = this.open();
      const decoder = await opening;
      try {
        return decoder.add(request, options);
      } catch (error) {
        // Closed for somebody, or it has failed: the next one is asked.
        if (errorCode(error) !== 'DISPOSED') throw error;
        this.forget(opening);
      }
    }
  }

  private async passGate(): Promise<void> {
    for (let gate; gate !== this.gate;) await (gate = this.gate);
  }

  private open(): Promise<Decoder> {
    if (this.decoder !== null) return this.decoder;
    const { idleMs: _, ...options } = this.options;
    const opening = this.model.openDecoder({ ...options, policies: this.policies() });
    opening.catch(() => this.forget(opening));
    return (this.decoder = opening);
  }

  private forget(decoder: Promise<Decoder>): void {
    if (this.decoder === decoder) this.decoder = null;
  }

  private async close(): Promise<void> {
    const closing = this.decoder;
    this.decoder = null;
    if (closing === null) return;
    const decoder = await closing.catch(() => null);
    // Whoever asked it was told why it failed.
    await decoder?.close().catch(() => undefined);
  }

  private ended(): void {
    if (--this.asking > 0 || !Number.isFinite(this.options.idleMs)) return;
    this.idle = setTimeout(() => {
      if (this.asking === 0) void this.close();
    }, this.options.idleMs);
  }

  async dispose(): Promise<void> {
    clearTimeout(this.idle);
    await this.exclusively(async () => undefined);
    clearTimeout(this.idle);
  }
}
