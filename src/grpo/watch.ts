/** What the stages of a run tell the watchdog. */
import type { Phase } from '../config';

export interface Watch {
  /** The step being made, from 1; 0 before the first. */
  step: number;
  /** Runs `work` as a phase. When it has hung and does not end on being cancelled either, the wait for it ends. */
  phase<T>(phase: Phase, work: () => Promise<T>): Promise<T>;
  /** The same for work that is done at once. */
  during<T>(phase: Phase, note: () => string, work: () => T): T;
  /** Something is in flight until the function that comes back is called, which is a sign of progress. */
  begin(describe: () => unknown): () => void;
  progress(): void;
  /** What is begun now: all that is known when the thread is blocked. At most 4 KiB count. */
  note(text: () => string): void;
}

const nothing = () => undefined;

/** Watches nothing. */
export const NO_WATCH: Watch = {
  step: 0,
  phase: (_, work) => work(),
  during: (_phase, _note, work) => work(),
  begin: () => nothing,
  progress: nothing,
  note: nothing,
};

const HEAD_CHARS = 200;

/** The beginning of a text, in one line. */
export const head = (text: string) =>
  `${text.slice(0, HEAD_CHARS).replace(/\s+/g, ' ')}${text.length > HEAD_CHARS ? '...' : ''}`;
