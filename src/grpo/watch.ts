/** What the stages of a run report to the watchdog. */
import type { Phase } from '../config';

export interface Watch {
  /** The run is now at this step, from 1; 0 before the first. */
  atStep(step: number): void;
  /** Runs `work` as a phase. If it hangs and does not end even when cancelled, stops waiting for it. */
  phase<T>(phase: Phase, work: () => Promise<T>): Promise<T>;
  /** The same for synchronous work. */
  during<T>(phase: Phase, note: () => string, work: () => T): T;
  /** Marks something as in flight until the returned function is called, which is a sign of progress. */
  begin(describe: () => unknown): () => void;
  progress(): void;
  /** Says what is starting now: all that is known if the thread blocks. At most 4 KiB are kept. */
  note(text: () => string): void;
}

const nothing = () => undefined;

/** Watches nothing. */
export const NO_WATCH: Watch = {
  atStep: nothing,
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
