/** The processes of a run as a `ProcessGroup`, over Gloo. */
import type { ProcessGroup } from '.';
import type { NativeGroup } from './native';
import { decode, encode } from './wire';

/** Rejects with the reason of `lost` as soon as it aborts: a collective whose peer is silent never ends by itself. */
export class GlooGroup implements ProcessGroup {
  /** Calls that wait for other ranks. */
  private calls = 0;

  constructor(
    readonly rank: number,
    readonly size: number,
    private readonly native: NativeGroup,
    private readonly lost: AbortSignal,
    /** What to say of a failed collective. */
    private readonly failed: (error: unknown) => Promise<Error>,
  ) {}

  async allGather<Item>(item: Item): Promise<Item[]> {
    const { bytes, error } = encoded(item);
    const all = await this.ended(this.native.gather(bytes));
    if (error !== null) throw error;
    return all.map((one) => decode(one) as Item);
  }

  async sumInPlace(values: Float64Array | Float32Array): Promise<void> {
    await this.ended(this.native.sum(values));
  }

  /** After the last collective of all. */
  async part(): Promise<void> {
    await this.ended(this.native.part());
  }

  /** Whether this rank waits for others, or moves data. */
  get waits(): boolean {
    return this.calls > 0;
  }

  private async ended<T>(call: Promise<T>): Promise<T> {
    const { lost } = this;
    this.calls++;
    return new Promise<T>((resolve, reject) => {
      const onLost = (): void => reject(lost.reason as Error);
      lost.addEventListener('abort', onLost);
      if (lost.aborted) onLost();
      call
        .then(resolve, async (error: unknown) => reject(await this.failed(error)))
        .finally(() => {
          this.calls--;
          lost.removeEventListener('abort', onLost);
        });
    });
  }
}

/** What cannot be sent is nothing to the others, who fail as well instead of waiting for it. */
function encoded(item: unknown): { bytes: Uint8Array; error: Error | null } {
  try {
    return { bytes: encode(item), error: null };
  } catch (error) {
    return { bytes: new Uint8Array(), error: error as Error };
  }
}
