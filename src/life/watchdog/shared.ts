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

  read() {
    const at = (place: number): number => this.numbers[place]!;
    return {
      /** Increases while the event loop of the run's thread turns. */
      beats: at(BEATS),
      /** A debugger may hold the run's thread. */
      debugged: at(DEBUGGED) === 1,
      /** null: nothing is watched. */
      phase: PHASES[at(PHASE) - 1] ?? null,
      /** The step in progress, from 1; 0 before the first. */
      step: at(STEP),
      /** Number of signs of progress in this phase. */
      progress: at(PROGRESS),
      /** How long the phase may go without progress. */
      limitMs: at(LIMIT),
      timeInPhaseMs: clockMs() - at(BEGAN),
      /** What was started last. */
      note: this.text.toString('utf8', 0, at(NOTE_LENGTH)),
    };
  }

  beat(debugged: boolean): void {
    this.numbers[DEBUGGED] = debugged ? 1 : 0;
    this.numbers[BEATS]!++;
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
