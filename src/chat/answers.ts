/** One request to a model, and its answers as their tokens come. */
import { AcoerError } from '../base/errors';
import type { GeneratedSequence, GenerateRequest, NewTokens, Policy } from '../engine/types';
import { measureCompletion, type Tokenizer } from '../tokenizer';
import type { Outside, Thinking } from '../base/types';
import { type AnswerParts, AnswerText, type AnswerTextOptions } from './answer-text';
import type { Batcher } from './batcher';

/** What has come since the last piece of the same sample. */
export interface Piece extends AnswerParts {
  sample: number;
  ids: number[];
  /** At temperature 1 for greedy answers, otherwise at that of the request. */
  logprobs: number[];
}

/** A whole answer. */
export interface Answer extends AnswerParts, Thinking, Required<Outside> {
  sample: number;
  /** With the token that ended it. */
  ids: number[];
  logprobs: number[];
  finish: 'stop' | 'length';
  /** The stop string that ended it; null: a token, or its length. */
  stop: string | null;
}

export interface Question
  extends Omit<GenerateRequest, 'policy'>, Pick<AnswerTextOptions, 'split' | 'stops' | 'skipSpecial'> {
  thinkOpened: boolean;
  numSamples: number;
}

/** Pieces that nobody has taken yet, those of a sample in one. */
class Pieces {
  private waiting = new Map<number, Piece>();
  private wake: () => void = () => undefined;
  private outcome: { error?: unknown } | null = null;

  add(piece: Piece): void {
    const before = this.waiting.get(piece.sample);
    if (before === undefined) this.waiting.set(piece.sample, piece);
    else {
      before.text += piece.text;
      before.thinking += piece.thinking;
      before.ids = before.ids.concat(piece.ids);
      before.logprobs = before.logprobs.concat(piece.logprobs);
    }
    this.wake();
  }

  end(outcome: { error?: unknown }): void {
    this.outcome = outcome;
    this.wake();
  }

  async *taken(): AsyncGenerator<Piece> {
    for (;;) {
      const pieces = [...this.waiting.values()];
      this.waiting.clear();
      yield* pieces;
      if (this.waiting.size > 0) continue;
      if (this.outcome !== null) {
        if ('error' in this.outcome) throw this.outcome.error;
        return;
      }
      await new Promise<void>((resolve) => {
        this.wake = resolve;
      });
    }
  }
}

/** A sample of the request. */
class Sample {
  private readonly text: AnswerText;
  private readonly parts: AnswerParts = { text: '', thinking: '' };
  private readonly ids: number[] = [];
  private readonly logprobs: number[] = [];
  private answer: Answer | null = null;

  constructor(
    private readonly number: number,
    private readonly question: Question,
    private readonly tokenizer: Tokenizer,
  ) {
    this.text = new AnswerText(tokenizer, question);
  }

  /** Whether a stop string has ended it, whatever the engine still adds. */
  get stopped(): boolean {
    return this.text.stop !== null;
  }

  add(ids: ArrayLike<number>, logprobs: ArrayLike<number>): Piece {
    const piece: Piece = { sample: this.number, text: '', thinking: '', ids: [], logprobs: [] };
    // One by one where a stop string may end it, so that the token is known.
    const atOnce = (this.question.stops ?? []).length === 0 ? ids.length : 1;
    for (let at = 0; at < ids.length && !this.stopped; at += atOnce) {
      const some = Array.prototype.slice.call(ids, at, at + atOnce) as number[];
      piece.ids = piece.ids.concat(some);
      piece.logprobs = piece.logprobs.concat(
        Array.prototype.slice.call(logprobs, at, at + atOnce) as number[],
      );
      this.tell(this.text.add(some.filter((id) => !this.question.stopIds.includes(id))), piece);
    }
    for (const id of piece.ids) this.ids.push(id);
    for (const logprob of piece.logprobs) this.logprobs.push(logprob);
    return piece;
  }

  /** The engine has ended it: the last piece. */
  end({ ids, logprobs, finish }: GeneratedSequence): Piece {
    const seen = this.ids.length;
    const piece = this.add(ids.subarray(seen), logprobs.subarray(seen));
    this.tell(this.text.end(), piece);
    const { stop } = this.text;
    const counts = measureCompletion(Int32Array.from(this.ids), this.tokenizer, this.question.thinkOpened);
    this.answer = {
      sample: this.number,
      ...this.parts,
      ...{ ids: this.ids, logprobs: this.logprobs, stop },
      ...counts,
      finish: stop !== null || finish === 'stop' ? 'stop' : 'length',
    };
    return piece;
  }

  get ended(): Answer {
    return this.answer!;
  }

  private tell(made: AnswerParts, piece: Piece): void {
    for (const part of ['text', 'thinking'] as const) {
      piece[part] += made[part];
      this.parts[part] += made[part];
    }
  }
}

/** The answers to one question, to be read as they come, once; whoever stops reading cancels them. */
export interface Answers extends AsyncIterable<Piece> {
  /** By sample. @throws CANCELLED, BAD_ARGUMENT, or what ended the engine's call */
  result(): Promise<Answer[]>;
}

export interface AskOptions {
  signal?: AbortSignal | undefined;
  /** false: nobody reads pieces, which costs less. Default true. */
  streams?: boolean;
}

/** Asks at once. */
export function ask(
  batcher: Batcher,
  tokenizer: Tokenizer,
  question: Question,
  policy: () => Promise<Policy | null>,
  { signal, streams = true }: AskOptions = {},
): Answers {
  const { thinkOpened: _, split: _split, stops = [], skipSpecial: _skip, ...request } = question;
  const samples = Array.from({ length: question.numSamples }, (_, i) => new Sample(i, question, tokenizer));
  const pieces = new Pieces();
  const left = new AbortController();
  const onAbort = () => left.abort();
  signal?.addEventListener('abort', onAbort, { once: true });
  if (signal?.aborted === true) onAbort();
  const onTokens = ({ sample, ids, logprobs }: NewTokens): void => {
    const one = samples[sample]!;
    if (one.stopped) return;
    pieces.add(one.add(ids, logprobs));
    if (samples.every(({ stopped }) => stopped)) left.abort();
  };
  const watched = streams || stops.length > 0;

  const answered = (async () => {
    const asked = { ...request, policy: await policy() };
    const added = await batcher.add(asked, { signal: left.signal, ...(watched && { onTokens }) });
    const sequences = await added.sequences;
    for (const sequence of sequences) pieces.add(samples[sequence.sample]!.end(sequence));
    const cut = sequences.some(({ finish, sample }) => finish === 'cancelled' && !samples[sample]!.stopped);
    if (cut) throw new AcoerError('CANCELLED', 'the answer was cancelled');
    return samples.map(({ ended }) => ended);
  })();
  answered
    .then(
      () => pieces.end({}),
      (error: unknown) => pieces.end({ error }),
    )
    .finally(() => signal?.removeEventListener('abort', onAbort));
  return {
    result: () => answered,
    async *[Symbol.asyncIterator]() {
      try {
        yield* pieces.taken();
      } finally {
        left.abort();
      }
    },
  };
}
