/**
 * The answers of several processes. Each answers its share, and once a second all tell each other what has ended, while
 * they go on decoding: rank 0 has every answer about when it would have made it itself, so that what is interrupted is
 * kept. Draws depend only on seed, problem and sample, so who answers cannot change an answer.
 */
import { isCancellation } from '../base/abortable';
import { errorCode } from '../base/errors';
import { shuffledIndices } from '../base/rng';
import { minimum } from '../base/statistics';
import type { Prompt } from '../base/types';
import { failureOf, RankError, type Failure, type Ranks } from '../ranks';
import type { Decoding } from '../sampling';
import {
  allOf,
  answerAsked,
  answerProblems,
  askedBy,
  isAmong,
  type Asked,
  type EvalCompletion,
  type EvalOptions,
} from './evaluate';
import type { EvalRow } from './summary';

/** Between two exchanges; a rank that has made its share waits for the others. */
const EVERY_MS = 1_000;

const WHAT = 'the evaluation';

/** Every rank has the problems. */
type Sent = Omit<EvalCompletion, 'prompt'> & { prompt: Omit<Prompt, 'problem'> };

/** How a rank's share goes: `stopped` when its signal has fired. */
type State = 'works' | 'made' | 'stopped' | Failure;

type Flying = Pick<Decoding, 'tokens' | 'sequences'>;

/** What a rank tells the others. */
interface Told {
  /** What has ended since it last told. */
  completions: Sent[];
  flying: Flying;
  state: State;
}

/**
 * Which rank answers what, -1 what is there. Problems are dealt in random order, for data may be ordered by difficulty.
 * The samples of one go as neighbours, which share the reading of the prompt, each part to the rank that has fewest.
 */
export function dealtAnswers(
  size: number,
  { problems, samples }: Pick<Asked, 'problems' | 'samples'>,
  isThere: (index: number, sample: number) => boolean,
): (index: number, sample: number) => number {
  const owners = new Int16Array(problems * samples).fill(-1);
  const counts = new Array<number>(size).fill(0);
  for (const index of shuffledIndices(problems, 0n)) {
    const wanted = Array.from({ length: samples }, (_, sample) => sample).filter(
      (sample) => !isThere(index, sample),
    );
    const parts = Math.min(size, wanted.length);
    for (let part = 0; part < parts; part++) {
      const rank = counts.indexOf(minimum(counts));
      const at = (boundary: number) => Math.floor((boundary * wanted.length) / parts);
      for (const sample of wanted.slice(at(part), at(part + 1))) {
        owners[index * samples + sample] = rank;
        counts[rank]!++;
      }
    }
  }
  return (index, sample) => owners[index * samples + sample]!;
}

/** One evaluation, as one of its ranks sees it. */
class Shared {
  private readonly rows: EvalRow[];
  /** Not told yet. */
  private fresh: Sent[] = [];
  /** What each rank decodes, as it last told. */
  private readonly flying: Flying[];
  private readonly begunMs = performance.now();
  private state: State = 'works';
  /** What this rank failed with. */
  private failure: { error: unknown } | null = null;
  /** Ends this rank's share. */
  private readonly stop = new AbortController();
  private onEnd = (): void => undefined;

  constructor(
    private readonly ranks: Ranks,
    private readonly asked: Asked,
    /** Rows of an interrupted call. */
    private readonly finished: readonly EvalRow[],
    private readonly everyMs: number,
  ) {
    this.rows = [...finished];
    this.flying = Array.from({ length: ranks.size }, () => ({ tokens: 0, sequences: [] }));
  }

  async answers(): Promise<EvalRow[]> {
    const { signal } = this.asked.options;
    const onAbort = (): void => this.stop.abort(signal?.reason);
    signal?.addEventListener('abort', onAbort);
    if (signal?.aborted === true) onAbort();
    const share = this.share();
    try {
      const states = await this.exchanges();
      if (this.failure !== null) throw this.failure.error;
      const rank = states.findIndex((state) => typeof state === 'object');
      if (rank !== -1) throw new RankError(rank, WHAT, states[rank] as Failure);
      return allOf(this.asked, this.rows);
    } finally {
      // Where a rank is lost.
      this.stop.abort();
      await share;
      signal?.removeEventListener('abort', onAbort);
    }
  }

  /** Makes this rank's share, and notes how that ends. */
  private async share(): Promise<void> {
    const { ranks, asked, finished, stop } = this;
    const there = isAmong(finished);
    const owner = dealtAnswers(ranks.size, asked, there);
    const options: EvalOptions = {
      ...asked.options,
      finished: [],
      signal: stop.signal,
      onCompletion: (completion) => this.add(completion),
      onProgress: ({ tokens, sequences }) => {
        this.flying[ranks.rank] = { tokens, sequences };
        this.tell();
      },
    };
    try {
      await answerAsked({ ...asked, options }, (index, sample) => owner(index, sample) !== ranks.rank);
      this.state = stop.signal.aborted ? this.stopped() : 'made';
    } catch (error) {
      this.state = this.ended(error);
    }
    this.onEnd();
  }

  private ended(error: unknown): State {
    const { signal } = this.stop;
    if (signal.aborted && (isCancellation(error) || error === signal.reason)) return this.stopped();
    this.failure ??= { error };
    return failureOf(this.failure.error);
  }

  /** Whoever ended this rank's share by an error, as its watchdog does, ends the run by it. */
  private stopped(): State {
    const reason: unknown = this.stop.signal.reason;
    if (errorCode(reason) !== undefined) this.failure ??= { error: reason };
    return this.failure === null ? 'stopped' : failureOf(this.failure.error);
  }

  private add(completion: EvalCompletion): void {
    const { prompt, ...rest } = completion;
    const { problem: _, ...known } = prompt;
    this.fresh.push({ ...rest, prompt: known });
    this.take(completion);
  }

  private take(completion: EvalCompletion): void {
    const { prompt: _prompt, ids: _ids, text: _text, format: _format, ...row } = completion;
    this.rows.push(row);
    this.asked.options.onCompletion?.(completion);
  }

  private tell(): void {
    const { options, problems, samples } = this.asked;
    const tokens = this.flying.reduce((sum, one) => sum + one.tokens, 0);
    const seconds = Math.max(1e-3, (performance.now() - this.begunMs) / 1_000);
    options.onProgress?.({
      done: this.rows.length,
      total: problems * samples,
      tokens,
      tokensPerSecond: tokens / seconds,
      sequences: this.flying.flatMap(({ sequences }) => sequences),
    });
  }

  /** Until no rank works any more. @returns how each has ended */
  private async exchanges(): Promise<State[]> {
    const works = (): boolean => this.state === 'works';
    for (;;) {
      // A share that goes on for longer after it was to stop may never end.
      const stopping = this.stop.signal.aborted;
      await this.pause();
      const all = await this.ranks.gather(WHAT, async () => this.told(stopping), works);
      all.forEach((told, rank) => this.hear(told, rank));
      const states = all.map(({ state }) => state);
      if (states.every((state) => state !== 'works')) return states;
      if (states.some((state) => state !== 'works' && state !== 'made')) this.stop.abort();
    }
  }

  private pause(): Promise<void> {
    return new Promise((resolve) => {
      if (this.state !== 'works') return resolve();
      const timer = setTimeout(resolve, this.everyMs);
      this.onEnd = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  private told(stopping: boolean): Told {
    const completions = this.fresh;
    this.fresh = [];
    const state = this.state === 'works' && stopping ? this.stopped() : this.state;
    return { completions, flying: this.flying[this.ranks.rank]!, state };
  }

  /** What the caller does with an answer may fail on this rank alone: the others hear of that in the next exchange. */
  private hear({ completions, flying }: Told, rank: number): void {
    if (rank === this.ranks.rank || this.failure !== null) return;
    this.flying[rank] = flying;
    try {
      for (const sent of completions) this.takeSent(sent);
      if (completions.length > 0) this.tell();
    } catch (error) {
      this.failure = { error };
      this.stop.abort();
      if (this.state !== 'works') this.state = failureOf(error);
    }
  }

  private takeSent({ prompt: known, ...rest }: Sent): void {
    const { dataset, model, onNoRoom } = this.asked.options;
    const prompt = { ...known, problem: dataset.get(known.index) };
    if (rest.sample === 0 && prompt.ids.length >= model.info.maxPositions) onNoRoom?.(prompt);
    this.take({ ...rest, prompt });
  }
}

/**
 * `answerProblems` by all ranks together: each calls this with the same options, and gets all rows and, by `onCompletion`,
 * all answers. `finished` counts on rank 0 only.
 * @param everyMs between two exchanges
 * @throws the rank's own error if its share failed, else RankError if that of another did; CANCELLED if the signal of any
 * rank fires
 */
export async function answerTogether(
  ranks: Ranks,
  given: EvalOptions,
  everyMs = EVERY_MS,
): Promise<EvalRow[]> {
  if (ranks.size === 1) return answerProblems(given);
  let asked: Asked | null = null;
  const [finished] = await ranks.gather(`the beginning of ${WHAT}`, async () => {
    asked = await askedBy(given);
    return ranks.rank === 0 ? (asked.options.finished ?? []) : [];
  });
  return new Shared(ranks, asked!, finished!, everyMs).answers();
}
