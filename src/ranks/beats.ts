/**
 * Who is alive. Every process tells it once a second, from a thread, over the store; one that was not heard for
 * `timeoutMs` is lost, and that ends the run for all. How long the work between two beats takes does not matter.
 *
 * A killed process is noticed at once, by its right neighbour, whose connection it was; the note `end` in the store
 * tells the others.
 */
import { AcoerError, errorCode, errorMessage, type AcoerErrorCode } from '../base/errors';
import { isRecord } from '../base/json';
import { awakeTimer } from '../base/deadline';
import type { BeatReport, NativeStore } from './native';

/** A process of the run. */
export interface Member {
  rank: number;
  host: string;
  pid: number;
}

export interface BeatSettings {
  own: Member;
  members: readonly Member[];
  timeoutMs: number;
  /** Ends a process that was stopped for longer, from the thread. */
  exitWhenStopped: boolean;
  /** The launcher serves the store, not rank 0. */
  launcherServes: boolean;
}

/** What a rank is doing, in words. */
export interface Doing {
  step: number;
  phase: string;
}

/** Why the run ends, as the one who set the note saw it. */
interface End {
  code: AcoerErrorCode;
  message: string;
}

const EVERY_MS = 1_000;
/** Each tick counts as at most twice its length: a blocked thread, or a debugger, makes nobody lost. */
const TICK_MS = 500;
/** How long to wait for the note of another. */
const NOTE_MS = 3_000;
/** After which every rank has heard a note. */
const HEARD_MS = 2_500;
/** Ranks per second that one store answers without effort. */
const RANKS_PER_SECOND = 64;

const GONE = 'has ended without a word, and the store of the run with it';

export const nameOf = ({ rank, host, pid }: Member): string => `Rank ${rank} (host ${host}, pid ${pid})`;

const seconds = (ms: number): string => `${Math.round(ms / 1000)} s`;

const lostError = (message: string): AcoerError => new AcoerError('RANK_LOST', message);

/** The value, or undefined after a while: a call over a link that was cut never returns. */
export async function inTime<T>(call: Promise<T>, ms: number): Promise<T | undefined> {
  let cancel = () => undefined as void;
  const late = new Promise<undefined>((resolve) => {
    cancel = awakeTimer(ms, () => resolve(undefined));
  });
  try {
    return await Promise.race([call, late]);
  } finally {
    cancel();
    call.catch(() => undefined);
  }
}

function endOf(text: string): End | null {
  try {
    const end: unknown = JSON.parse(text);
    if (!isRecord(end) || typeof end.code !== 'string' || typeof end.message !== 'string') return null;
    return { code: end.code as AcoerErrorCode, message: end.message };
  } catch {
    return null;
  }
}

export class Beats {
  private readonly loss = new AbortController();
  /** Aborts with the error that ends this rank, because another is lost or has failed. */
  readonly lost: AbortSignal = this.loss.signal;
  /** Called when a rank was asked to stop. */
  onStop: () => void = () => undefined;
  /** Called twice a second while all are well. */
  onTick: () => void = () => undefined;
  private readonly silentMs: number[];
  private readonly beats: (string | undefined)[] = [];
  private reportedMs = 0;
  private lastTickMs = performance.now();
  private readonly timer: NodeJS.Timeout;
  private over = false;
  private doing: Doing | null = null;
  /** Being told to the others. */
  private ending: Promise<Error> | null = null;

  constructor(
    private readonly store: NativeStore,
    private readonly settings: BeatSettings,
  ) {
    const { own, members, timeoutMs: stoppedAfterMs, exitWhenStopped } = settings;
    this.silentMs = members.map(() => 0);
    const everyMs = Math.max(EVERY_MS, (1_000 * members.length) / RANKS_PER_SECOND);
    const { length: size } = members;
    const about = { rank: own.rank, size, everyMs, stoppedAfterMs, exitWhenStopped, told: '' };
    store.beat(about, (report) => this.observe(report));
    this.timer = setInterval(() => this.tick(), TICK_MS).unref();
  }

  /** What this rank is doing from now on. */
  at(doing: Doing): void {
    if (this.over) return;
    this.doing = doing;
    this.store.tell(JSON.stringify(doing));
  }

  /** Asks every rank, this one included, to end after the step in progress. */
  stop(): void {
    void this.store.setOnce('stop', '1').catch(() => undefined);
  }

  /** Tells the others that this rank ends with an error, unless they know. @returns when all can have heard it */
  async fail(error: unknown): Promise<void> {
    const { own, launcherServes } = this.settings;
    const code = (errorCode(error) as AcoerErrorCode | undefined) ?? 'INTERNAL';
    const ended = this.endWith({ code, message: `${nameOf(own)} failed: ${errorMessage(error)}` });
    // With the process that serves the store goes the note.
    const serves = own.rank === 0 && !launcherServes;
    await Promise.all([ended, serves && new Promise((resolve) => setTimeout(resolve, HEARD_MS))]);
  }

  /** The left neighbour's connection has ended, and it had not parted. */
  async neighbourLost(rank: number): Promise<Error> {
    return this.lose(rank, 'has ended without a word');
  }

  /** What ended a collective: nobody else's connection can have, so a rank is lost, and the others may know which. */
  async collectiveFailed(error: unknown): Promise<Error> {
    if (this.ending !== null) return this.ending;
    // Its neighbour knows which, and within a second so does the store.
    await new Promise<void>((resolve) => {
      const cancel = awakeTimer(NOTE_MS, () => resolve());
      this.lost.addEventListener('abort', () => {
        cancel();
        resolve();
      });
    });
    if (this.lost.aborted) return this.lost.reason as Error;
    const message = `The connection to another rank has ended (${errorMessage(error).split('\n')[0]!}).`;
    return this.endWith({ code: 'RANK_LOST', message });
  }

  close(): void {
    this.finish();
    this.store.close();
  }

  /** From now on nobody is lost: the run is over, and processes end. */
  finish(): void {
    this.over = true;
    clearInterval(this.timer);
  }

  private observe({ beats = [], notes = {}, failed, stoppedMs }: BeatReport): void {
    if (this.over) return;
    if (stoppedMs !== undefined) return this.wasStopped(stoppedMs);
    if (failed !== undefined) {
      void this.loseStore('has ended', GONE);
      return;
    }
    beats.forEach((beat, rank) => {
      // Between two reports nobody is heard: without them only the process that serves the store is silent.
      const silent = beat === this.beats[rank];
      this.silentMs[rank] = silent ? this.silentMs[rank]! + this.reportedMs : 0;
      this.beats[rank] = beat;
    });
    this.reportedMs = 0;
    if (notes.end !== undefined) {
      const end = endOf(notes.end) ?? { code: 'RANK_LOST', message: 'Another rank has ended the run.' };
      const error = new AcoerError(end.code, end.message);
      this.finish();
      this.ending = Promise.resolve(error);
      this.loss.abort(error);
    } else if (notes.stop !== undefined) {
      this.onStop();
    }
  }

  private wasStopped(stoppedMs: number): void {
    const { own, timeoutMs } = this.settings;
    const limit = `the other ranks wait for ${seconds(timeoutMs)} only`;
    void this.endWith({
      code: 'RANK_LOST',
      message: `${nameOf(own)} was stopped, or cut off, for ${seconds(stoppedMs)}, and ${limit}.`,
    });
  }

  private tick(): void {
    const now = performance.now();
    const elapsedMs = Math.min(now - this.lastTickMs, 2 * TICK_MS);
    this.lastTickMs = now;
    const { timeoutMs, own } = this.settings;
    this.reportedMs += elapsedMs;
    if (this.reportedMs > timeoutMs) {
      const how = `for ${seconds(this.reportedMs)}`;
      void this.loseStore(`has not answered ${how}`, `has not been heard ${how}`);
      return;
    }
    const lost = this.silentMs.findIndex((ms, rank) => rank !== own.rank && ms > timeoutMs);
    if (lost !== -1) void this.lose(lost, `has not been heard for ${seconds(this.silentMs[lost]!)}`);
    else this.onTick();
  }

  private loseStore(how: string, howFirst: string): Promise<Error> {
    if (!this.settings.launcherServes) return this.lose(0, howFirst);
    return this.endWith({ code: 'RANK_LOST', message: `The launcher's store ${how}.` });
  }

  private lose(rank: number, how: string): Promise<Error> {
    const message = `${nameOf(this.settings.members[rank]!)} ${how}${this.lastSeen(rank)}.`;
    return this.endWith({ code: 'RANK_LOST', message });
  }

  /** What its newest beat told. */
  private lastSeen(rank: number): string {
    const beat = this.beats[rank] ?? '';
    try {
      const doing: unknown = JSON.parse(beat.slice(beat.indexOf(' ') + 1));
      if (!isRecord(doing) || typeof doing.step !== 'number' || typeof doing.phase !== 'string') return '';
      return `; last at step ${doing.step}, ${doing.phase}`;
    } catch {
      // Its first beat was sent before the first step, and the next comes a second later.
      if (this.doing === null) return '; last seen joining';
      return `; last at step ${this.doing.step}, ${this.doing.phase} or before`;
    }
  }

  /** Ends this rank, and by the note all others. Where another was first, its word counts. */
  private endWith(own: End): Promise<Error> {
    if (this.over && this.ending === null) return Promise.resolve(lostError(own.message));
    this.ending ??= this.tellAndEnd(own);
    return this.ending;
  }

  private async tellAndEnd(own: End): Promise<Error> {
    this.finish();
    const { code, message } = await this.note(own);
    const error = new AcoerError(code, message);
    this.loss.abort(error);
    return error;
  }

  /** @returns the note that stands */
  private async note(own: End): Promise<End> {
    const { launcherServes, members } = this.settings;
    try {
      const standing = await inTime(this.store.setOnce('end', JSON.stringify(own)), NOTE_MS);
      return endOf(standing ?? '') ?? own;
    } catch {
      // Without rank 0 the others end one after another, and each looks lost to its neighbour.
      if (launcherServes) return own;
      return { code: 'RANK_LOST', message: `${nameOf(members[0]!)} ${GONE}${this.lastSeen(0)}.` };
    }
  }
}
