/** Memory that the run's thread shares with the watchdog's, because a blocked thread delivers no messages. */
import { PHASES, type Phase } from '../../config';

const NUMBERS = 8;
const NOTE_BYTES = 4_096;

/** Milliseconds on a clock that is the same in all threads and never jumps. */
export const clockMs = () => Number(process.hrtime.bigint()) / 1e6;

/** Indices of the numbers. */
const BEATS = 0;
const PHASE = 1;
const STEP = 2;
const PROGRESS = 3;
const LIMIT = 4;
const BEGAN = 5;
const DEBUGGED = 6;
const NOTE_LENGTH = 7;

/** Each number has eight bytes, so the other thread reads the old or the new value, never a torn one. */
export class SharedState {
  private readonly numbers: Float64Array;
  private readonly text: Buffer;

  constructor(readonly buffer = new SharedArrayBuffer(NUMBERS * 8 + NOTE_BYTES)) {
    this.numbers = new Float64Array(buffer, 0, NUMBERS);
    this.text = Buffer.from(buffer, NUMBERS * 8, NOTE_BYTES);
  }

  private get(place: number): number {
    return this.numbers[place]!;
  }

  /** Increases while the event loop of the run's thread turns. */
  get beats(): number {
    return this.get(BEATS);
  }

  /** @param debugged a debugger may hold the run's thread */
  beat(debugged: boolean): void {
    this.numbers[DEBUGGED] = debugged ? 1 : 0;
    this.numbers[BEATS]!++;
  }

  get debugged(): boolean {
    return this.get(DEBUGGED) === 1;
  }

  /** null: nothing is watched. */
  get phase(): Phase | null {
    return PHASES[this.get(PHASE) - 1] ?? null;
  }

  /** Number of signs of progress in this phase. */
  get progress(): number {
    return this.get(PROGRESS);
  }

  /** The step in progress, from 1; 0 before the first. */
  get step(): number {
    return this.get(STEP);
  }

  /** How long the phase may go without progress. */
  get limitMs(): number {
    return this.get(LIMIT);
  }

  get timeInPhaseMs(): number {
    return clockMs() - this.get(BEGAN);
  }

  /** What was started last. */
  get note(): string {
    return this.text.toString('utf8', 0, this.get(NOTE_LENGTH));
  }

  enter(phase: Phase | null, step: number, limitMs: number, progress: number, beganMs: number): void {
    this.numbers.set(
      [phase === null ? 0 : PHASES.indexOf(phase) + 1, step, progress, limitMs, beganMs],
      PHASE,
    );
    this.numbers[NOTE_LENGTH] = 0;
  }

  moved(): void {
    this.numbers[PROGRESS]!++;
  }

  write(note: string): void {
    this.numbers[NOTE_LENGTH] = this.text.write(note);
  }
}
