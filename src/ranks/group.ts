/** The processes of a run as a `ProcessGroup`, over Gloo. */
import type { ProcessGroup } from '.';
import type { NativeGroup } from './native';
import { decode, encode } from './wire';

/** Rejects with the reason of `lost` as soon as it aborts: a collective whose peer is silent never ends by itself. */
export class GlooGroup implements ProcessGroup {
  /** Of each call that waits for other ranks: whether this process works meanwhile. */
  private readonly calls = new Set<() => boolean>();

  constructor(
    readonly rank: number,
    readonly size: number,
    private readonly native: NativeGroup,
    private readonly lost: AbortSignal,
    /** What to say of a failed collective. */
    private readonly failed: (error: unknown) => Promise<Error>,
  ) {}

  async allGather<Item>(item: Item, works = (): boolean => false): Promise<Item[]> {
    const { bytes, error } = encoded(item);
    const all = await this.ended(this.native.gather(bytes), works);
    if (error !== null) throw error;
    return all.map((one) => decode(one) as Item);
  }

  async sumInPlace(values: Float64Array | Float32Array): Promise<void> {
    await this.ended(this.native.sum(values));
  }

  async gatherInPlace(values: Float64Array | Float32Array, offsets: number[]): Promise<void> {
    await this.ended(this.native.gatherInPlace(values, offsets));
  }

  /** Whether this rank waits for others, or moves data, and does nothing else. */
  get waits(): boolean {
    return [...this.calls].some((works) => !works());
  }

  private async ended<T>(call: Promise<T>, works = (): boolean => false): Promise<T> {
    const { lost, calls } = this;
    // A key of its own: a caller may give the same function twice.
    const waiting = (): boolean => works();
    calls.add(waiting);
    return new Promise<T>((resolve, reject) => {
      const onLost = (): void => reject(lost.reason as Error);
      lost.addEventListener('abort', onLost);
      if (lost.aborted) onLost();
      call
        .then(resolve, async (error: unknown) => reject(await this.failed(error)))
        .finally(() => {
          calls.delete(waiting);
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
