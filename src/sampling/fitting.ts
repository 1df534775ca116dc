/** Work that is cut into smaller parts when the engine runs out of memory. */
import { AcoerError, errorCode, errorMessage } from '../errors';
import type {
  GenerateCallOptions,
  GeneratedSequence,
  GenerateRequest,
  GenerateStats,
  Model,
} from '../engine/types';
import { DEFAULT_SLOTS } from '../engine/types';

export { DEFAULT_SLOTS };

/**
 * `attempt`, again and again: whenever it runs out of memory, after `makeSmaller` has seen to it that the next one
 * needs less, or has thrown.
 */
export async function untilItFits<T>(
  attempt: () => Promise<T>,
  makeSmaller: (error: unknown) => void | Promise<void>,
): Promise<T> {
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (errorCode(error) !== 'OUT_OF_MEMORY') throw error;
      await makeSmaller(error);
    }
  }
}

/** How many sequences are decoded together: at most so many; fewer once memory ran out with more. */
export class SlotLimit {
  constructor(
    public slots: number = DEFAULT_SLOTS,
    /** Called when it was lowered. */
    private readonly onLowered: (slots: number) => void = () => undefined,
  ) {}

  /**
   * Half of what can have been in use with `waiting` sequences to decode.
   * @throws OUT_OF_MEMORY when that was one
   */
  lower(waiting: number, error: unknown): void {
    const used = Math.min(this.slots, waiting);
    if (used <= 1) {
      const message = `Decoding one completion at a time: ${errorMessage(error)}`;
      throw new AcoerError('OUT_OF_MEMORY', message, { cause: error });
    }
    this.slots = Math.floor(used / 2);
    this.onLowered(this.slots);
  }
}

/** Neighbouring samples of a request that are still to be made. */
interface Piece {
  request: number;
  /** Within the request. */
  from: number;
  count: number;
}

class Remaining {
  private readonly done: boolean[][];
  count: number;

  constructor(private readonly requests: readonly GenerateRequest[]) {
    this.done = requests.map(({ numSamples = 1 }) => new Array<boolean>(numSamples).fill(false));
    this.count = this.done.reduce((sum, { length }) => sum + length, 0);
  }

  finish(request: number, sample: number): void {
    this.done[request]![sample] = true;
    this.count--;
  }

  pieces(): Piece[] {
    const pieces: Piece[] = [];
    this.done.forEach((samples, request) =>
      samples.forEach((done, sample) => {
        const last = pieces.at(-1);
        if (done) return;
        if (last?.request === request && last.from + last.count === sample) last.count++;
        else pieces.push({ request, from: sample, count: 1 });
      }),
    );
    return pieces;
  }

  requestFor({ request, from, count }: Piece): GenerateRequest {
    const whole = this.requests[request]!;
    return { ...whole, firstSample: (whole.firstSample ?? 0) + from, numSamples: count };
  }
}

/**
 * `model.generate` that goes on with fewer slots when memory runs out: completions that have ended are kept, the others
 * are made anew. A draw depends on seed and sample alone, so the completions are those of a call that found memory, up
 * to rounding. Each goes to `onSequence` once.
 *
 * @throws OUT_OF_MEMORY when not even one sequence can be decoded
 */
export async function generateFitting(
  model: Model,
  requests: readonly GenerateRequest[],
  limit: SlotLimit,
  {
    onSequence,
    ...options
  }: Omit<GenerateCallOptions, 'maxSlots' | 'collect'> & {
    onSequence: (sequence: GeneratedSequence) => void;
  },
): Promise<GenerateStats> {
  const remaining = new Remaining(requests);
  let keptTokens = 0;
  return untilItFits(
    async () => {
      const pieces = remaining.pieces();
      let tokens = 0;
      const receive = (sequence: GeneratedSequence) => {
        const { request, from } = pieces[sequence.request]!;
        const sample = from + sequence.sample;
        if (sequence.finish !== 'cancelled') remaining.finish(request, sample);
        tokens += sequence.ids.length;
        onSequence({ ...sequence, request, sample });
      };
      try {
        const { stats } = await model.generate(
          pieces.map((piece) => remaining.requestFor(piece)),
          { ...options, maxSlots: limit.slots, collect: false, onSequence: receive },
        );
        return { ...stats, newTokens: stats.newTokens + keptTokens };
      } finally {
        keptTokens += tokens;
      }
    },
    (error) => limit.lower(remaining.count, error),
  );
}
