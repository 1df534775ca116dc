/** How a run looks while it goes on: a line that is redrawn on a terminal, plain lines anywhere else. */
import type { TrainEvent } from '../../grpo';
import type { Rollback } from '../../run';
import { DownloadView } from '../download';
import { gigabytes, grouped, percent } from './format';
import { stepLine } from './line';
import { planLines } from './plan';

const rollbackLine = ({ number, from, to, pressure }: Rollback) =>
  `rollback ${number}: from step ${from} to the checkpoint of step ${to}, efficiency pressure ${Number(pressure.toPrecision(3))}, other seeds`;

export interface ProgressStream {
  write(text: string): unknown;
  isTTY?: boolean;
  columns?: number;
}

/** Plain output says every tenth step; nobody reads a log of each. */
const PLAIN_EVERY = 10;
/** Steps over which the time left is averaged: lengths change as training goes on. */
const RECENT_STEPS = 20;

const EVALUATED = { base: 'base model', step: 'model so far', trained: 'trained model' } as const;

export class ProgressView {
  private maxSteps = 0;
  private readonly recentMs: number[] = [];
  private lastStepAt = 0;
  private lastLine = '';
  private transient = false;
  private readonly download: DownloadView;

  constructor(private readonly stream: ProgressStream) {
    this.download = new DownloadView('from the hub', stream);
  }

  private get live(): boolean {
    return this.stream.isTTY === true;
  }

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
      case 'evaluated':
        this.evaluated(event);
        break;
      case 'decode-progress':
        this.redraw(`${this.lastLine}  [${event.done}/${event.total}]`);
        break;
      case 'step':
        this.step(event);
        break;
      case 'checkpoint':
        this.print(`checkpoint ${event.path}`);
        break;
      case 'health':
        this.print(
          `monitor    step ${event.change.step}: ${event.change.from} -> ${event.change.to}. ${event.change.reason}`,
        );
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
    this.lastLine = stepLine({ index, maxSteps: this.maxSteps, metrics, leftMs });
    if (this.live) this.redraw(this.lastLine);
    else if (index === 1 || index % PLAIN_EVERY === 0 || index === this.maxSteps) this.print(this.lastLine);
  }

  /** A line that stays. */
  private print(line: string): void {
    this.clear();
    this.stream.write(`${line}\n`);
  }

  /** A line the next one replaces; nothing where lines cannot be replaced. */
  private redraw(line: string): void {
    if (!this.live) return;
    const width = (this.stream.columns ?? 80) - 1;
    this.stream.write(`\r\x1b[2K${line.slice(0, width)}`);
    this.transient = true;
  }

  /** Leaves the stream at the start of an empty line. */
  clear(): void {
    if (!this.transient) return;
    this.stream.write('\r\x1b[2K');
    this.transient = false;
  }
}
