/**
 * progress.json: what a run is doing now, for a page or a script in another process. Best effort: it is
 * replaced by renaming, without forcing it to disk, nobody waits for it, and a failure to write it is a
 * warning.
 */
import { rename, rm, writeFile } from 'node:fs/promises';
import { setTimeout as wait } from 'node:timers/promises';
import { z } from 'zod';
import { errorMessage } from '../base/errors';
import { readTextSync } from '../base/regular-file';
import { temporaryName } from './atomic';
import { RunDirectory } from './directory';

/** `finished`, `interrupted` and `failed`: the process has ended, or has let go of the run. */
const RUN_PHASES = [
  'loading',
  'base evaluation',
  'generate',
  'reward',
  'score',
  'train',
  'evaluation',
  'checkpoint',
  'finished',
  'interrupted',
  'failed',
] as const;

const MAX_SEQUENCES = 256;
const MAX_ID_CHARS = 200;
/** A page reads a file of this size in no time; ours are a tenth of it. */
const MAX_BYTES = 1_000_000;

const amount = z.number().nonnegative();
const count = amount.int();

const schema = z.object({
  /** ISO 8601. The file stays as it is while nothing moves, and when the process is killed. */
  updatedAt: z.iso.datetime(),
  pid: count,
  phase: z.enum(RUN_PHASES),
  /** The step in progress, from 1; 0 before the first. */
  step: count,
  maxSteps: count,
  /** The kind of evaluation; null in other phases. */
  kind: z.enum(['greedy', 'sampled']).nullable(),
  /** Completions or answers that have ended, and all that are wanted; null in phases that sample nothing. */
  done: count.nullable(),
  total: count.nullable(),
  /** New tokens so far in this generation or evaluation, also of sequences in flight. */
  tokens: count.nullable(),
  /** The mean since it began. */
  tokensPerSecond: amount.nullable(),
  /**
   * Being decoded. `prompt` is the position in the run's data order, in an evaluation the problem's, from 0;
   * `tokens` are the new ones so far.
   */
  sequences: z
    .array(z.object({ problemId: z.string().max(MAX_ID_CHARS), prompt: count, sample: count, tokens: count }))
    .max(MAX_SEQUENCES),
});

export type RunProgress = z.infer<typeof schema>;
export type RunPhase = RunProgress['phase'];
/** What the run says; the rest is filled in when it is written, and long lists and names are cut. */
export interface CurrentProgress extends Readonly<Omit<RunProgress, 'updatedAt' | 'pid' | 'sequences'>> {
  readonly sequences: readonly RunProgress['sequences'][number][];
}

/** null: the run has none yet, or it is torn, or something else has its name. */
export function readProgress(directory: string): RunProgress | null {
  const path = new RunDirectory(directory).progress();
  try {
    return schema.parse(JSON.parse(readTextSync(path, MAX_BYTES)));
  } catch {
    return null;
  }
}

/** Time between two writes, and after a change of phase, which soon follows another in small runs. */
const EVERY_MS = 1_000;
const SOON_MS = 100;
/** How long the end of a run waits for a disk that does not answer. */
const LAST_MS = 1_000;

export class ProgressFile {
  private current: CurrentProgress | null = null;
  private writing: Promise<void> = Promise.resolve();
  private isWriting = false;
  private writtenMs = -Infinity;
  /** When the timer writes next. */
  private dueMs = Infinity;
  private timer: NodeJS.Timeout | undefined;
  private warned = false;
  private ended = false;

  /** @param warn gets one sentence at the first failure */
  constructor(
    private readonly directory: RunDirectory,
    private readonly warn: (message: string) => void,
  ) {}

  /** @param soon write this within a tenth of a second, not within a second */
  show(current: CurrentProgress, soon: boolean): void {
    if (this.ended) return;
    this.current = current;
    const dueMs = Math.max(performance.now(), this.writtenMs + (soon ? SOON_MS : EVERY_MS));
    if (dueMs < this.dueMs) this.plan(dueMs);
  }

  /** Writes the last state, or with null nothing more. Resolves when nothing is being written. */
  async end(last: CurrentProgress | null): Promise<void> {
    this.plan(Infinity);
    this.ended = true;
    this.current = last;
    const written = this.writing.then(() => this.write());
    const gaveUp = new AbortController();
    await Promise.race([written, wait(LAST_MS, undefined, { signal: gaveUp.signal }).catch(() => undefined)]);
    gaveUp.abort();
  }

  private plan(dueMs: number): void {
    clearTimeout(this.timer);
    this.dueMs = dueMs;
    const waitMs = dueMs - performance.now();
    if (waitMs <= 0) this.begin();
    else if (waitMs < Infinity) this.timer = setTimeout(() => this.begin(), waitMs).unref();
  }

  private begin(): void {
    const now = performance.now();
    // A slow disk: what is written next will say more.
    if (this.isWriting) return this.plan(now + EVERY_MS);
    this.dueMs = Infinity;
    this.writtenMs = now;
    this.isWriting = true;
    this.writing = this.write().finally(() => (this.isWriting = false));
  }

  /** Never rejects. */
  private async write(): Promise<void> {
    // It may be null by the time the lock has been read.
    const { current } = this;
    if (current === null) return;
    const path = this.directory.progress();
    const temporary = temporaryName(path);
    try {
      if (this.directory.lock !== null && !(await this.directory.lock.isHeld())) return;
      await writeFile(temporary, `${JSON.stringify(contentOf(current))}\n`);
      await rename(temporary, path);
    } catch (error) {
      await rm(temporary, { force: true }).catch(() => undefined);
      if (this.warned) return;
      this.warned = true;
      const why = errorMessage(error);
      try {
        this.warn(`${path} cannot be written (${why}), so it may be out of date; the run goes on.`);
      } catch {
        // Nobody awaits this write, so what a listener throws would end the process.
      }
    }
  }
}

function contentOf({ sequences, ...current }: CurrentProgress): RunProgress {
  const shown = sequences.slice(0, MAX_SEQUENCES).map((sequence) => ({
    ...sequence,
    problemId: sequence.problemId.slice(0, MAX_ID_CHARS),
  }));
  return { updatedAt: new Date().toISOString(), pid: process.pid, ...current, sequences: shown };
}
