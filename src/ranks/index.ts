/**
 * The ranks of a data-parallel run, one per process. Every rank runs the same loop: it samples the completions
 * of its share of the prompts, scores its share of the rewards and runs the passes over its share of the
 * samples. Advantages and metrics are computed from the gathered rows and are the same on every rank.
 *
 * A collective takes the work whose result is shared, not the result: an error of that work is what the rank
 * brings, so no rank waits for one that failed. An error between two collectives is brought by `leave`.
 */
import type { Moment, Policy } from '../engine/types';
import { AcoerError, type AcoerErrorCode, errorCode, errorMessage } from '../base/errors';

export { join, type Joined } from './join';
export { launchOf, type Launch } from './launch';
export { asSent } from './wire';

/**
 * What carries the messages between the processes of a data-parallel run. Calls are made by all ranks in the same
 * order; each ends when the last rank has made it.
 */
export interface ProcessGroup {
  /** This process's rank, from 0. */
  readonly rank: number;
  readonly size: number;
  /**
   * What every rank brought, in rank order: copies of plain data. Rejects when a rank cannot be reached.
   * @param works whether this process does work of its own meanwhile, so that it does not merely wait for others
   */
  allGather<Item>(item: Item, works?: () => boolean): Promise<Item[]>;
  /**
   * Replaces `values` by the sum over all ranks, in place and by the same bits on every rank. All bring the same type and
   * number. Rejects as `allGather`.
   */
  sumInPlace(values: Float64Array | Float32Array): Promise<void>;
  /**
   * Replaces each rank's part of `values`, the numbers `[offsets[rank], offsets[rank + 1])`, by what that rank has there,
   * in place. All bring the same offsets, and the same type and number. Rejects as `allGather`.
   */
  gatherInPlace(values: Float64Array | Float32Array, offsets: number[]): Promise<void>;
}

/** A run with a single process. */
const ONE_RANK: ProcessGroup = {
  rank: 0,
  size: 1,
  allGather: (item) => Promise.resolve([item]),
  sumInPlace: () => Promise.resolve(),
  gatherInPlace: () => Promise.resolve(),
};

/** How a rank's work ended, as its own process knows it. */
type Ended<T> = { made: T } | { error: unknown };

/** An error as other ranks are told of it. */
export interface Failure {
  code: AcoerErrorCode;
  message: string;
}

/** How a rank's work ended, as the others are told. */
interface Brought<T> {
  /** The work, in words. */
  what: string;
  made?: T;
  failed?: Failure;
  /** The rank's loop has ended without an error. */
  left?: true;
}

/** Thrown on the ranks that did not fail themselves, with the code of the error on the one that did. */
export class RankError extends AcoerError {
  constructor(
    /** The rank that failed; the lowest if there are several. */
    readonly rank: number,
    what: string,
    { code, message }: Failure,
  ) {
    super(code, `Rank ${rank} failed in ${what}: ${message}`);
  }
}

/** An error without a code has no meaning to a caller on another rank: there it is INTERNAL. */
export const failureOf = (error: unknown): Failure => ({
  code: (errorCode(error) as AcoerErrorCode | undefined) ?? 'INTERNAL',
  message: errorMessage(error),
});

function broughtBy<T>(what: string, own: Ended<T>): Brought<T> {
  return 'error' in own ? { what, failed: failureOf(own.error) } : { what, made: own.made };
}

export class Ranks {
  readonly rank: number;
  readonly size: number;
  /** A collective has failed, so every rank knows. */
  private over = false;
  private running: Promise<unknown> | null = null;
  private waitedMs = 0;
  /** Ends this rank's part in the running collective, whose work goes on unheard. */
  private end: (own: { error: unknown }) => void = () => undefined;

  constructor(private readonly group: ProcessGroup = ONE_RANK) {
    this.rank = group.rank;
    this.size = group.size;
  }

  /**
   * Runs `work` on every rank. Returns what each made, in rank order.
   *
   * @param what the work, in words for messages
   * @param works as in `ProcessGroup.allGather`
   * @throws the rank's own error if its work failed, else RankError if that of another did
   */
  async gather<T>(what: string, work: () => Promise<T>, works?: () => boolean): Promise<T[]> {
    try {
      const running = this.collect(what, work, works);
      this.running = running;
      return await running;
    } finally {
      this.running = null;
    }
  }

  /** Runs `work` on rank 0 alone. Returns on every rank what it made. @throws as `gather` */
  async fromFirst<T>(what: string, work: () => Promise<T>): Promise<T> {
    const [made] = await this.gather(what, async () => (this.rank === 0 ? work() : null));
    return made as T;
  }

  /**
   * Replaces the summed gradients of each rank's policy by the sum over all ranks.
   * @throws INTERNAL when the ranks' policies are not of the same shape; otherwise as `gather`
   */
  async reduceGradients(policy: Policy): Promise<void> {
    if (this.size === 1) return;
    let sums: Float64Array | Float32Array = new Float64Array();
    // The sum itself carries no outcome, so it begins only when every rank has come to it.
    const shapes = await this.gather('the sum of the gradients', async () => {
      sums = await policy.gradientSums();
      return `${sums.length} numbers of ${sums.BYTES_PER_ELEMENT} bytes`;
    });
    const other = shapes.findIndex((shape) => shape !== shapes[0]);
    if (other !== -1) {
      const message = `Rank ${other} trains ${shapes[other]}, rank 0 ${shapes[0]}.`;
      throw new AcoerError('INTERNAL', message);
    }
    await this.group.sumInPlace(sums);
  }

  /** How long this rank has waited for the others since it was asked last. */
  takeWaitedMs(): number {
    const waited = this.waitedMs;
    this.waitedMs = 0;
    return waited;
  }

  /**
   * Gathers what the ranks' shards of a policy have of its weights or of a moment, in the memory that `lendShard` gives.
   * @throws as `gather`
   */
  async gatherShards(policy: Policy, what: 'weights' | Moment): Promise<void> {
    let numbers: Float64Array | Float32Array = new Float64Array();
    await this.gather(`the gathering of the shards (${what})`, async () => {
      numbers = await policy.lendShard(what);
    });
    await this.group.gatherInPlace(numbers, policy.info.shardOffsets);
  }

  /** Whether the ranks have met for the last time, because one has failed. */
  get parted(): boolean {
    return this.over;
  }

  /**
   * Tells the other ranks that this one makes no further calls, and waits until they have heard: those that
   * do go on fail in their next call. Ranks that all leave without an error can go on together later.
   *
   * @param error why; undefined: the rank has done its work, or its caller ends it
   * @throws RankError when this rank has no error and another left with one
   */
  async leave(error?: unknown): Promise<void> {
    if (this.size === 1) return;
    if (error !== undefined) this.end({ error });
    await this.running?.catch(() => undefined);
    if (this.over) return;
    const what = 'the work between two exchanges';
    const all = await this.exchange<never>(
      error === undefined ? { what, left: true } : { what, failed: failureOf(error) },
    );
    if (error === undefined) this.throwIfFailed(all);
  }

  private async collect<T>(what: string, work: () => Promise<T>, works?: () => boolean): Promise<T[]> {
    const own = await this.ended(work);
    const all = await this.exchange(broughtBy(what, own), works);
    if ('error' in own) {
      this.over = true;
      throw own.error;
    }
    this.throwIfFailed(all);
    const other = all.findIndex((one) => one.left === true || one.what !== what);
    if (other === -1) return all.map(({ made }) => made as T);
    this.over = true;
    if (all[other]!.left === true)
      throw new AcoerError('INTERRUPTED', `Rank ${other} left the run before ${what}.`);
    const message = `Rank ${other} is in ${all[other]!.what} while rank ${this.rank} is in ${what}.`;
    throw new AcoerError('INTERNAL', message);
  }

  /** How `work` ends, or the error with which this rank leaves before that. */
  private ended<T>(work: () => Promise<T>): Promise<Ended<T>> {
    return new Promise((resolve) => {
      this.end = resolve;
      const begun = async () => work();
      begun().then(
        (made) => resolve({ made }),
        (error: unknown) => resolve({ error }),
      );
    });
  }

  private async exchange<T>(own: Brought<T>, works?: () => boolean): Promise<Brought<T>[]> {
    const begun = performance.now();
    try {
      return await this.group.allGather(own, works);
    } catch (error) {
      this.over = true;
      throw error;
    } finally {
      this.waitedMs += performance.now() - begun;
    }
  }

  private throwIfFailed(all: readonly Brought<unknown>[]): void {
    const rank = all.findIndex(({ failed }) => failed !== undefined);
    if (rank === -1) return;
    this.over = true;
    const { what, failed } = all[rank]!;
    throw new RankError(rank, what, failed!);
  }
}

/** This rank's part of `rows`: a contiguous slice, so that gathering the parts restores the order. */
export function shareOf<Row>({ rank, size }: Pick<Ranks, 'rank' | 'size'>, rows: readonly Row[]): Row[] {
  const at = (boundary: number) => Math.floor((boundary * rows.length) / size);
  return rows.slice(at(rank), at(rank + 1));
}
