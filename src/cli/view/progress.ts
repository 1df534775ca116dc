/** A run's live output: lines that stay and, on a terminal, a last line that is redrawn. */
import { gigabytes, grouped, percent } from '../../text';
import type { TrainEvent } from '../../train';
import type { Rollback } from '../../run';
import { DownloadView } from '../download';
import { healthLine } from './health';
import { stepLine } from './line';
import type { Answer } from './answers';
import { planLines } from './plan';
import { wrapWords } from './text';

/** Column where the text after a label begins. */
const INDENT = ' '.repeat(11);

const rollbackLine = ({ number, from, to, pressure }: Rollback) =>
  `rollback ${number}: from step ${from} to the checkpoint of step ${to}, efficiency pressure ${Number(pressure.toPrecision(3))}, other seeds`;

export interface ProgressStream {
  write(text: string): unknown;
  isTTY?: boolean;
  columns?: number;
}

/** The line of every tenth step stays; nobody reads a log of each one. */
const STAYS_EVERY = 10;
/** Steps averaged to estimate the remaining time, which changes with completion lengths. */
const RECENT_STEPS = 20;

const EVALUATED = { base: 'base model', step: 'model so far', trained: 'trained model' } as const;

export class ProgressView {
  private maxSteps = 0;
  private readonly recentMs: number[] = [];
  private lastStepAt = 0;
  /** The newest step's line, unless it is one that stays. */
  private lastLine = '';
  private transient = false;
  private readonly download: DownloadView;

  constructor(private readonly stream: ProgressStream) {
    this.download = new DownloadView('from the hub', stream);
  }

  private get live(): boolean {
    return this.stream.isTTY === true;
  }

  /** Columns a line may fill; unlimited when not on a terminal. */
  private get width(): number {
    return this.live ? (this.stream.columns ?? 80) - 1 : Infinity;
  }

  /** The greedy answers to one problem: before training, and the newest one since. */
  readonly answers: { base: Answer | null; trained: Answer | null } = { base: null, trained: null };

  readonly onEvent = (event: TrainEvent): void => {
    switch (event.type) {
      case 'download':
        this.download.onProgress(event);
        break;
      case 'run':
        this.maxSteps = event.config.maxSteps;
        for (const line of planLines(event.config)) this.print(line);
        if (event.resumedStep !== null) this.print(`resuming after step ${event.resumedStep}`);
        break;
      case 'plan':
        this.print(
          `memory     ${gigabytes(event.plan.memory.peakBytes)} planned, ${gigabytes(event.plan.device.freeBytes)} available`,
        );
        break;
      case 'loaded':
        this.print(
          `model      ${event.model}: ${grouped(event.parameters)} parameters, ${grouped(event.trained)} trained, ${event.dtype} on ${event.device}`,
        );
        this.lastStepAt = performance.now();
        break;
      case 'eval-progress':
        this.redraw(`evaluating the ${EVALUATED[event.phase]}, ${event.kind}: ${event.done}/${event.total}`);
        break;
      case 'answer':
        this.answers[event.phase === 'base' ? 'base' : 'trained'] = event;
        break;
      case 'evaluated':
        this.evaluated(event);
        break;
      case 'decode-progress':
        this.redraw(
          `${this.lastLine || `step ${event.step}/${this.maxSteps}`}  [${event.done}/${event.total}]`,
        );
        break;
      case 'step':
        this.step(event);
        break;
      case 'checkpoint':
        this.print(`checkpoint ${event.path}`);
        break;
      case 'health':
        this.print(`monitor    ${healthLine(event.change)}`);
        break;
      case 'rollback':
        this.print(rollbackLine(event.rollback));
        break;
      case 'hang':
        this.print(`watchdog   ${event.message}`);
        break;
      case 'warning':
        this.print(`warning: ${event.message}`);
    }
  };

  private evaluated({ phase, kind, summary }: TrainEvent & { type: 'evaluated' }): void {
    const { accuracy, thinkingTokens, n } = summary;
    this.print(
      `${EVALUATED[phase]}, ${kind}: accuracy ${percent(accuracy)}, ${thinkingTokens.toFixed(1)} thinking tokens, ${n} problems`,
    );
    this.lastStepAt = performance.now();
  }

  private step({ index, metrics }: TrainEvent & { type: 'step' }): void {
    const now = performance.now();
    this.recentMs.push(now - this.lastStepAt);
    if (this.recentMs.length > RECENT_STEPS) this.recentMs.shift();
    this.lastStepAt = now;
    const meanMs = this.recentMs.reduce((a, b) => a + b, 0) / this.recentMs.length;
    const leftMs = meanMs * (this.maxSteps - index);
    const line = stepLine({ index, maxSteps: this.maxSteps, metrics, leftMs, width: this.width });
    const stays = index === 1 || index % STAYS_EVERY === 0 || index === this.maxSteps;
    this.lastLine = stays ? '' : line;
    if (stays) this.print(line);
    else this.redraw(line);
  }

  /** Prints a line that stays, wrapped and indented on a narrow terminal. */
  private print(line: string): void {
    this.clear();
    this.stream.write(`${wrapWords(line, this.width, INDENT).join('\n')}\n`);
  }

  /** Prints a line that the next one replaces; does nothing where lines cannot be replaced. */
  private redraw(line: string): void {
    if (!this.live) return;
    this.stream.write(`\r\x1b[2K${line.slice(0, this.width)}`);
    this.transient = true;
  }

  /** Clears the redrawn line, leaving the cursor at its start. */
  clear(): void {
    if (!this.transient) return;
    this.stream.write('\r\x1b[2K');
    this.transient = false;
  }
}
