/** Shows the progress of an evaluation on stderr. */
import type { EvalRow } from '../../eval';
import { duration, grouped, percent } from '../../base/text';
import { printableLine } from '../../base/printable';
import { printNote } from '../output';

/** Time between two lines where a line cannot be redrawn. */
const QUIET_MS = 30_000;

/** Redraws one line on a terminal; elsewhere prints a line every tenth of the work and every half minute. */
export class EvalProgress {
  private readonly began = Date.now();
  private done: number;
  private correct: number;
  private fresh = 0;
  private tokens = 0;
  private shownAt = 0;
  private shownTenth = 0;
  private readonly label: string;

  /** @param finished answers of an earlier session: they count as done but not towards the speed */
  constructor(
    label: string,
    private readonly total: number,
    finished: readonly EvalRow[],
  ) {
    this.label = printableLine(label, 200);
    this.done = finished.length;
    this.correct = finished.filter((row) => row.verdict.correct).length;
    if (this.done > 0) printNote(`${this.label}: ${this.done} of ${total} answers were done earlier`);
  }

  add(row: EvalRow): void {
    this.done++;
    this.fresh++;
    this.correct += Number(row.verdict.correct);
    this.tokens += row.totalTokens;
    this.show();
  }

  private line(): string {
    const elapsedMs = Math.max(1, Date.now() - this.began);
    const left = ((this.total - this.done) * elapsedMs) / this.fresh;
    const speed = grouped(Math.round((1000 * this.tokens) / elapsedMs));
    const accuracy = percent(this.correct / this.done);
    const rest = this.done < this.total ? `${duration(left)} left` : `in ${duration(elapsedMs)}`;
    return `${this.label}: ${this.done}/${this.total} answers, accuracy ${accuracy}, ${speed} tokens/s, ${rest}`;
  }

  private show(): void {
    const now = Date.now();
    const ended = this.done === this.total;
    if (process.stderr.isTTY) {
      if (ended || now - this.shownAt > 100) {
        process.stderr.write(`\r\u001b[K${this.line()}${ended ? '\n' : ''}`);
        this.shownAt = now;
      }
      return;
    }
    const tenth = Math.floor((10 * this.done) / this.total);
    if (tenth > this.shownTenth || now - Math.max(this.shownAt, this.began) > QUIET_MS) {
      printNote(this.line());
      [this.shownAt, this.shownTenth] = [now, tenth];
    }
  }
}
