/** Work that is split into smaller parts when the engine runs out of memory. */
import { AcoerError, errorCode, errorMessage } from '../base/errors';
import type { SamplerPlace } from '../engine/errors';
import type {
  GenerateCallOptions,
  GeneratedSequence,
  GenerateProgress,
  GenerateRequest,
  GenerateStats,
  Model,
} from '../engine/types';
import { DEFAULT_SLOTS } from '../engine/types';
import type { InFlight, SampleProgress } from './progress';

export { DEFAULT_SLOTS };

/** Repeats `attempt` until memory suffices; after a failure `makeSmaller` makes the next one need less, or throws. */
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

/** The most sequences to decode at a time; lowered when memory runs out. */
export class SlotLimit {
  constructor(
    public slots: number = DEFAULT_SLOTS,
    /** Called after the limit was lowered. */
    private readonly onLowered: (slots: number) => void = () => undefined,
  ) {}

  /**
   * Lowers the limit to half of the slots that can have been in use with `waiting` sequences to decode.
   * @throws OUT_OF_MEMORY if that was only one
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

/** Whether a sequence has come to its own end. */
export const isWhole = ({ finish }: Pick<GeneratedSequence, 'finish'>): boolean =>
  finish === 'stop' || finish === 'length';

/** Consecutive samples of a request that are not finished. */
interface Piece {
  request: number;
  /** The first sample, within the request. */
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

function progressOfWhole(
  pieces: readonly Piece[],
  { promptTokens, inFlight }: GenerateProgress,
): SampleProgress {
  const whole: InFlight[] = [];
  for (let i = 0; i < inFlight.length; i += 3) {
    const { request, from } = pieces[inFlight[i]!]!;
    whole.push({ prompt: request, sample: from + inFlight[i + 1]!, tokens: inFlight[i + 2]! });
  }
  return { promptTokens, inFlight: whole };
}

/** The place of a NOT_FINITE error in the requests of the whole. */
function placeInWhole(pieces: readonly Piece[], error: unknown): void {
  const { request, sample } = error as Partial<SamplerPlace>;
  const piece = request === undefined ? undefined : pieces[request];
  if (piece === undefined || sample === undefined) return;
  Object.assign(error as Error, { request: piece.request, sample: piece.from + sample });
}

/**
 * `model.generate` that continues with fewer slots when memory runs out: finished completions are kept, the
 * others are generated again. A draw depends on seed and sample alone, so up to rounding the completions are
 * those of a call with enough memory. Each goes to `onSequence` once. `onProgress` names sequences by the
 * request and sample of the whole, however often memory ran out.
 *
 * @throws OUT_OF_MEMORY when not even one sequence can be decoded
 */
export async function generateFitting(
  model: Model,
  requests: readonly GenerateRequest[],
  limit: SlotLimit,
  {
    onSequence,
    onProgress,
    ...options
  }: Omit<GenerateCallOptions, 'maxSlots' | 'collect' | 'onProgress'> & {
    onSequence: (sequence: GeneratedSequence) => void;
    onProgress?: (progress: SampleProgress) => void;
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
        if (isWhole(sequence)) remaining.finish(request, sample);
        tokens += sequence.ids.length;
        onSequence({ ...sequence, request, sample });
      };
      const report =
        onProgress && ((progress: GenerateProgress) => onProgress(progressOfWhole(pieces, progress)));
      try {
        const { stats } = await model.generate(
          pieces.map((piece) => remaining.requestFor(piece)),
          { ...options, maxSlots: limit.slots, collect: false, onSequence: receive, onProgress: report },
        );
        return { ...stats, newTokens: stats.newTokens + keptTokens };
      } catch (error) {
        if (errorCode(error) === 'NOT_FINITE') placeInWhole(pieces, error);
        throw error;
      } finally {
        keptTokens += tokens;
      }
    },
    (error) => limit.lower(remaining.count, error),
  );
}
