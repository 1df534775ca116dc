/**
 * Lines at the bottom of a terminal that are redrawn in place while others scroll above them. Every redraw is
 * one write and overwrites what is there, so nothing flickers.
 */
import type { OutputStream } from './colors';
import { columnsOf } from './text';

const HIDE_CURSOR = '\x1b[?25l';
const SHOW_CURSOR = '\x1b[?25h';
const CLEAR_LINE_END = '\x1b[K';
const CLEAR_BELOW = '\x1b[J';
const up = (rows: number) => (rows > 0 ? `\x1b[${rows}A` : '');

/** Least time between two redraws. */
const REDRAW_MS = 100;
/** Redrawn at least this often, so that times keep counting while nothing happens. */
const TICK_MS = 1000;

const ESCAPES = /\x1b\[[0-9;?]*[A-Za-z]/g; // eslint-disable-line no-control-regex

/** Columns that a line may fill: one less than there are, because some terminals wrap after the last one. */
export const lineWidth = ({ columns = 80 }: OutputStream): number => Math.max(1, columns - 1);

/** A stream of this process that may write to the same terminal. */
export interface SharedStream extends OutputStream {
  on?(event: 'resize', listener: () => void): unknown;
  off?(event: 'resize', listener: () => void): unknown;
}

type Write = (chunk: unknown, ...rest: unknown[]) => unknown;

export class LiveRegion {
  /** The drawn lines without colours; empty: nothing is drawn. */
  private drawn: string[] = [];
  private drawnAt = -Infinity;
  private timer: NodeJS.Timeout | null = null;
  private dueAt = 0;
  private open = false;
  /** Someone else's output ended within a line. */
  private midLine = false;
  private readonly undo: (() => void)[] = [];
  private readonly rawWrite: (text: string) => unknown;

  /**
   * @param render the lines for a width; called for every redraw
   * @param others further streams that show on the same terminal
   */
  constructor(
    private readonly stream: SharedStream,
    private readonly render: (width: number) => string[],
    private readonly others: readonly SharedStream[] = [],
  ) {
    this.rawWrite = stream.write.bind(stream);
  }

  /** Prints lines that stay, above the live ones. */
  print(lines: readonly string[]): void {
    if (this.open) this.compose(lines);
    else this.rawWrite(`${lines.join('\n')}\n`);
  }

  /** Begins to draw, or redraws now or soon. */
  update(): void {
    if (!this.open) this.begin();
    const waitMs = this.drawnAt + REDRAW_MS - performance.now();
    if (waitMs <= 0) this.compose([]);
    else this.drawIn(waitMs);
  }

  /** Removes the live lines and shows the cursor; `update` begins again. */
  close(): void {
    if (!this.open) return;
    this.open = false;
    this.undo.splice(0).forEach((undo) => undo());
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
    this.erase();
    this.rawWrite(SHOW_CURSOR);
  }

  private begin(): void {
    this.open = true;
    this.rawWrite(HIDE_CURSOR);
    for (const stream of new Set([this.stream, ...this.others])) this.share(stream);
    const resized = () => {
      // Overwritten rows would stay marked as wrapped ones, and be joined when the terminal grows again.
      this.erase();
      this.compose([]);
    };
    this.stream.on?.('resize', resized);
    this.undo.push(() => this.stream.off?.('resize', resized));
    this.closeAtExit();
    this.suspendWithProcess();
  }

  private listen(event: string, listener: () => void): void {
    process.on(event, listener);
    this.undo.push(() => process.off(event, listener));
  }

  /** However the process ends, short of SIGKILL, the cursor comes back; signals are in ../interrupt.ts. */
  private closeAtExit(): void {
    this.listen('exit', () => this.close());
    this.listen('uncaughtExceptionMonitor', () => this.close());
  }

  /** Ctrl-Z gives the terminal back; `fg` draws again. */
  private suspendWithProcess(): void {
    this.listen('SIGTSTP', () => {
      this.erase();
      this.rawWrite(SHOW_CURSOR);
      process.kill(process.pid, 'SIGSTOP');
    });
    this.listen('SIGCONT', () => {
      this.rawWrite(HIDE_CURSOR);
      this.compose([]);
    });
  }

  /** Lets what others write to `stream` (a reward that logs, a warning of Node) appear above the live lines. */
  private share(stream: SharedStream): void {
    const own = Object.getOwnPropertyDescriptor(stream, 'write');
    const original = stream.write.bind(stream) as Write;
    const write: Write = (chunk, ...rest) => {
      this.erase();
      const text = typeof chunk === 'string' ? chunk : Buffer.from(chunk as Uint8Array).toString();
      this.midLine = !text.endsWith('\n');
      const result = original(chunk, ...rest);
      this.update();
      return result;
    };
    Object.defineProperty(stream, 'write', { value: write, configurable: true, writable: true });
    this.undo.push(() => {
      if (own === undefined) delete (stream as Partial<SharedStream>).write;
      else Object.defineProperty(stream, 'write', own);
    });
  }

  /** Redraws after `ms`, or earlier if that was already planned. */
  private drawIn(ms: number): void {
    const dueAt = performance.now() + ms;
    if (this.timer !== null && this.dueAt <= dueAt) return;
    if (this.timer !== null) clearTimeout(this.timer);
    this.dueAt = dueAt;
    this.timer = setTimeout(() => {
      this.timer = null;
      this.compose([]);
    }, ms);
    this.timer.unref();
  }

  /** The cursor is at the start of the last live line; this brings it to the start of the first. */
  private toTop(): string {
    // A narrower terminal has wrapped the lines.
    const columns = this.stream.columns ?? 80;
    const rows = this.drawn.map((line) => Math.max(1, Math.ceil(columnsOf(line) / columns)));
    return `\r${up(rows.slice(0, -1).reduce((sum, n) => sum + n, 0))}`;
  }

  private erase(): void {
    if (this.drawn.length === 0) return;
    this.rawWrite(`${this.toTop()}${CLEAR_BELOW}`);
    this.drawn = [];
  }

  /** Draws anew, below `kept`, which stays. */
  private compose(kept: readonly string[]): void {
    const start = this.drawn.length > 0 ? this.toTop() : this.midLine ? '\n' : '';
    this.midLine = false;
    // One row stays free for what is kept.
    const rows = Math.max(1, (this.stream.rows ?? 24) - 1);
    const lines = this.render(lineWidth(this.stream)).slice(0, rows);
    const text = [...kept, ...lines].map((line) => `${line}${CLEAR_LINE_END}`).join('\n');
    this.rawWrite(`${start}${text}${CLEAR_BELOW}\r`);
    this.drawn = lines.map((line) => line.replace(ESCAPES, ''));
    this.drawnAt = performance.now();
    this.drawIn(TICK_MS);
  }
}
