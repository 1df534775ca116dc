/** A sweep's output: lines that stay, on a terminal a live line for each running run, and the table at its end. */
import { mean } from '../../base/statistics';
import { duration, percent } from '../../base/text';
import { runNow, runPath, type RunNow, type SweepNews, type SweepRun } from '../../sweep';
import { formatTable, alignTable } from '../table';
import { printNote } from '../output';
import { printable } from '../../base/printable';
import { isTerminal } from './colors';
import { LiveRegion, type SharedStream } from './terminal';
import { cutTo } from './text';

const nameOf = ({ folder }: SweepRun): string => folder.slice(folder.indexOf('/') + 1);

const shownTokens = (tokens: number | null): string => (tokens === null ? '' : tokens.toFixed(0));
const shownShare = (share: number | null): string => (share === null ? '' : percent(share));

/** Milliseconds for the steps that are left; null: no step has been made. */
const leftMs = ({ step, maxSteps, stepSeconds }: RunNow): number | null =>
  stepSeconds === null ? null : 1000 * stepSeconds * Math.max(0, maxSteps - step);

function runningRow(run: SweepRun, now: RunNow): string[] {
  const left = leftMs(now);
  const accuracy = now.accuracy === null ? '' : `accuracy ${shownShare(now.accuracy)}`;
  const thinking = now.thinkingTokens === null ? '' : `thinking ${shownTokens(now.thinkingTokens)}`;
  const after = left === null || left === 0 ? (now.phase ?? 'starting') : `${duration(left)} left`;
  return [nameOf(run), `step ${now.step}/${now.maxSteps}`, accuracy, thinking, after];
}

/** What became of a run, for one line. */
export function endText({ state, collapsed, message, exitCode }: SweepRun): string {
  if (state === 'done') return collapsed ? 'done, collapsed' : 'done';
  const why = message === null ? (exitCode === null ? '' : `exit code ${exitCode}`) : message;
  return why === '' ? state : `${state}: ${why}`;
}

/** The states of all runs, with what their last steps were. */
export function stateTable(
  path: string,
  runs: readonly SweepRun[],
  maxSteps: ReadonlyMap<string, number>,
): string {
  const rows = runs.map((run) => {
    const now = runNow(runPath(path, run), maxSteps.get(run.folder) ?? 0);
    const steps = now.step === 0 ? '' : String(now.step);
    return [nameOf(run), steps, shownShare(now.accuracy), shownTokens(now.thinkingTokens), endText(run)];
  });
  const table = [['run', 'steps', 'accuracy', 'thinking', 'state'], ...rows];
  // The last column is text of any length.
  const numbers = formatTable(table.map((row) => row.slice(0, -1))).split('\n');
  const states = [...table.map((row) => row.at(-1)!)].toSpliced(1, 0, '-----');
  return numbers.map((line, i) => `${line.padEnd(numbers[1]!.length)}  ${states[i]!}`.trimEnd()).join('\n');
}

/** Comparing fewer takes seconds. */
const MANY_RUNS = 20;

export class SweepView {
  private readonly region: LiveRegion | null;
  private readonly running = new Map<string, SweepRun>();
  private readonly ended = new Set<string>();
  /** Milliseconds that whole runs took here. */
  private readonly tookMs: number[] = [];

  constructor(
    stream: SharedStream,
    private readonly path: string,
    private readonly total: number,
    private readonly maxSteps: ReadonlyMap<string, number>,
    private readonly parallel: number,
    others: readonly SharedStream[] = [],
  ) {
    const render = (width: number): string[] => this.lines().map((line) => cutTo(printable(line), width));
    this.region = isTerminal(stream) ? new LiveRegion(stream, render, others) : null;
  }

  readonly onNews = (news: SweepNews): void => {
    switch (news.type) {
      case 'waiting for': {
        const who = news.pid === null ? 'another process' : `process ${news.pid}`;
        this.print(
          `waiting  ${nameOf(news.run)} is still running as ${who}; it is resumed when that has ended`,
        );
        break;
      }
      case 'started':
        this.running.set(news.run.folder, news.run);
        this.print(`started  ${nameOf(news.run)}${news.alone ? ', alone' : ''}`);
        break;
      case 'ended':
        this.end(news.run);
        break;
      case 'comparing':
        if (news.runs >= MANY_RUNS) this.print(`comparing ${news.runs} runs; 100 take a minute or two`);
        break;
      case 'compared':
        this.print(`report ${news.report}`);
        break;
      case 'warning':
        this.print(`warning: ${news.message}`);
    }
    if (this.running.size > 0) this.region?.update();
  };

  private end(run: SweepRun): void {
    this.running.delete(run.folder);
    if (run.state === 'waiting') {
      this.print(`put off  ${nameOf(run)}${run.message === null ? '' : `: ${run.message}`}`);
      return;
    }
    this.ended.add(run.folder);
    if (run.state === 'done' && run.startedAt !== null && run.endedAt !== null)
      this.tookMs.push(Date.parse(run.endedAt) - Date.parse(run.startedAt));
    const count = `${this.ended.size} of ${this.total}`;
    this.print(
      `${run.state.padEnd(7)}  ${nameOf(run)} (${count})${run.state === 'done' ? this.figures(run) : `: ${run.message ?? ''}`}`,
    );
  }

  private figures(run: SweepRun): string {
    const now = runNow(runPath(this.path, run), this.maxSteps.get(run.folder) ?? 0);
    const collapsed = run.collapsed ? ', collapsed' : '';
    if (now.accuracy === null) return collapsed;
    return `: accuracy ${shownShare(now.accuracy)}, thinking ${shownTokens(now.thinkingTokens)} tokens at step ${now.step}${collapsed}`;
  }

  print(line: string): void {
    if (this.region === null) printNote(line);
    else this.region.print([printable(line)]);
  }

  close(): void {
    this.region?.close();
  }

  private lines(): string[] {
    const rows = [...this.running.values()].map((run) => {
      const now = runNow(runPath(this.path, run), this.maxSteps.get(run.folder) ?? 0);
      return { row: runningRow(run, now), now };
    });
    const left = this.leftMs(rows.map(({ now }) => now));
    const time = left === null ? '' : `, about ${duration(left)} left`;
    const head = `${this.ended.size} of ${this.total} runs ended, ${this.running.size} running${time}`;
    const table = rows.map(({ row }) => row);
    return [head, ...alignTable(table, 5)];
  }

  /** By the time that whole runs took, and what is left of those that run. */
  private leftMs(running: readonly RunNow[]): number | null {
    if (this.tookMs.length === 0) return null;
    const whole = mean(this.tookMs);
    const share = ({ step, maxSteps }: RunNow): number => (maxSteps === 0 ? 1 : 1 - step / maxSteps);
    const waiting = this.total - this.ended.size - running.length;
    const runs = waiting + running.reduce((total, now) => total + share(now), 0);
    return (whole * runs) / Math.max(1, Math.min(this.parallel, waiting + running.length));
  }
}
