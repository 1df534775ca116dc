/** The lines of an opened run in memory: whole as columns for zooming, and in buckets for the figures. */
import { randomBytes } from 'node:crypto';
import { basename } from 'node:path';
import { FIGURE_METRICS } from '../report/figures';
import { badInput } from '../base/errors';
import { discardedFile, lineMetrics, type Rollback, type RunDirectory } from '../run';
import { Pace } from '../base/pace';
import { maximum } from '../base/statistics';
import { grouped, percent } from '../base/text';
import type { StepMetrics } from '../base/types';
import { Buckets, fittingWidth, rounded, type WireBuckets } from './buckets';
import { FollowedLines } from './lines';
import type { LogEntry, Position, WireLines, WireSeries } from './wire';

/** Metrics that the page shows; the others stay in the file. */
const SHOWN: ReadonlySet<string> = new Set<string>([
  ...FIGURE_METRICS,
  'step_time',
  'monitor/state',
  'monitor/rollbacks',
]);
/** What is kept of a run, so that no file makes the server grow without bound; real runs have far less. */
const MOST_LINES = 100_000;
const MOST_NOTABLE = 500;
const MOST_EVALUATIONS = 500;
export const MOST_ROLLBACKS = 100;
/** A reader that is further behind fetches the run again. */
const MOST_LINES_SENT = 2_000;

const shownOf = (line: StepMetrics): [string, number][] =>
  Object.entries(line).filter((entry): entry is [string, number] => SHOWN.has(entry[0]));

export class RunSeries {
  private readonly file: FollowedLines;
  private epoch = '';
  private readonly steps: number[] = [];
  /** Of every metric the values by line, up to the last one; NaN: no value. */
  private columns = new Map<string, number[]>();
  private buckets = new Buckets();
  private latest: Record<string, number> = {};
  private before = 0;
  /** The lines in which something happened, which marks are made of. */
  readonly notable: StepMetrics[] = [];
  /** The results of evaluations. */
  readonly evaluations: LogEntry[] = [];
  private damaged: { line: number; count: number } | null = null;
  /** Lines beyond the first `MOST_LINES`. */
  private leftOut = 0;
  private discarded: { number: number; lines: StepMetrics[] }[] = [];

  constructor(private readonly run: RunDirectory) {
    this.file = metricsOf(
      run.metrics(),
      (line, number) => this.add(line, number),
      () => this.restart(),
    );
    this.restart();
  }

  private restart(): void {
    this.epoch = randomBytes(6).toString('hex');
    for (const list of [this.steps, this.notable, this.evaluations]) list.length = 0;
    this.columns = new Map();
    this.buckets = new Buckets();
    this.latest = {};
    this.before = 0;
    this.damaged = null;
    this.leftOut = 0;
  }

  private add(line: StepMetrics | null, number: number): void {
    if (line === null) {
      this.damaged = { line: this.damaged?.line ?? number, count: (this.damaged?.count ?? 0) + 1 };
      return;
    }
    if (this.steps.length >= MOST_LINES) {
      this.leftOut++;
      return;
    }
    const [step, values] = [line.step!, shownOf(line)];
    const index = this.steps.push(step) - 1;
    for (const [metric, value] of values) {
      let column = this.columns.get(metric);
      if (column === undefined) this.columns.set(metric, (column = []));
      while (column.length < index) column.push(NaN);
      column.push(value);
    }
    this.buckets.add(step, values);
    this.latest = Object.fromEntries([['step', step], ...values]);
    const state = line['monitor/state'] ?? this.before;
    const happened = state !== this.before || line.update_applied === 0;
    if (happened && this.notable.length < MOST_NOTABLE) {
      this.notable.push({ step, 'monitor/state': state, update_applied: line.update_applied ?? 1 });
    }
    this.before = state;
    const evaluated = evaluationText(line);
    if (evaluated === null) return;
    this.evaluations.push({ step, kind: 'evaluation', text: evaluated });
    if (this.evaluations.length > MOST_EVALUATIONS) this.evaluations.shift();
  }

  /** Reads what has been appended. */
  poll(): Promise<boolean> {
    return this.file.poll();
  }

  /** Reads the lines that rollbacks took back. @throws BAD_INPUT naming a damaged file */
  async readDiscarded(rollbacks: readonly Rollback[]): Promise<void> {
    const read: { number: number; lines: StepMetrics[] }[] = [];
    let room = MOST_LINES;
    for (const { number } of rollbacks) {
      const lines = await linesTakenBack(discardedFile(this.run, number), room);
      room -= lines.length;
      read.push({ number, lines });
    }
    this.discarded = read;
  }

  get position(): Position {
    return { epoch: this.epoch, lines: this.steps.length };
  }

  /** A sentence about lines that are not shown; null: there are none. */
  get problem(): string | null {
    const file = basename(this.file.path);
    if (this.leftOut > 0) {
      return `${file} has more than ${grouped(MOST_LINES)} lines; the page shows the first ones.`;
    }
    if (this.damaged === null) return null;
    const { line, count } = this.damaged;
    const more = count === 1 ? 'it is' : `it and ${count - 1} more like it are`;
    return `${file} line ${line} is not a line of metrics; ${more} left out.`;
  }

  /** All lines in buckets; with `range`, those of its steps, in buckets as narrow as they fit. */
  async series(range?: { from: number; to: number }): Promise<WireSeries> {
    const { epoch, lines } = this.position;
    const buckets = range === undefined ? this.whole() : await this.zoomed(range.from, range.to);
    const discarded = this.discarded.map(({ number, lines: taken }) => {
      return { number, buckets: bucketsOf(taken, buckets) };
    });
    return { epoch, lines, latest: this.latest, buckets: buckets.wire(), discarded };
  }

  /** Buckets of all lines, wide enough for those that rollbacks took back, which may go further. */
  private whole(): Buckets {
    const last = maximum([0, ...this.discarded.flatMap(({ lines }) => lines.map(({ step }) => step!))]);
    if (this.buckets.holds(last)) return this.buckets;
    const wider = Buckets.from(this.buckets.wire());
    while (!wider.holds(last)) wider.coarsen();
    return wider;
  }

  private async zoomed(from: number, to: number): Promise<Buckets> {
    const width = fittingWidth(from, to);
    const buckets = new Buckets(width, Math.floor(from / width));
    const pace = new Pace();
    const columns = [...this.columns];
    for (let i = 0; i < this.steps.length; i++) {
      const step = this.steps[i]!;
      if (step < from || step > to) continue;
      const values = columns.map(([metric, column]) => [metric, column[i] ?? NaN] as const);
      buckets.add(
        step,
        values.filter(([, value]) => !Number.isNaN(value)),
      );
      await pace.turn();
    }
    return buckets;
  }

  /** The lines after `position`; null: they cannot be sent, so the reader has to fetch the run again. */
  since(id: string, position: Position): WireLines | null {
    const { epoch, lines } = this.position;
    const from = position.lines;
    if (position.epoch !== epoch || from > lines || lines - from > MOST_LINES_SENT) return null;
    const columns: WireLines['columns'] = {};
    for (const [metric, column] of this.columns) {
      const values = Array.from({ length: lines - from }, (_, i) => column[from + i] ?? NaN);
      if (values.every(Number.isNaN)) continue;
      columns[metric] = values.map((value) => (Number.isNaN(value) ? null : rounded(value)));
    }
    return { id, epoch, from, lines, steps: this.steps.slice(from), columns };
  }
}

/** Lines in the buckets of `like`; those beyond its last possible one are left out. */
function bucketsOf(lines: readonly StepMetrics[], like: Buckets): WireBuckets {
  const buckets = new Buckets(like.width, like.start);
  for (const line of lines) if (buckets.holds(line.step!)) buckets.add(line.step!, shownOf(line));
  return buckets.wire();
}

async function linesTakenBack(path: string, most: number): Promise<StepMetrics[]> {
  const lines: StepMetrics[] = [];
  const damaged: number[] = [];
  const add = (line: StepMetrics | null, number: number): void => {
    if (line === null) damaged.push(number);
    else if (lines.length < most) lines.push(line);
  };
  await metricsOf(path, add).poll();
  if (damaged.length === 0) return lines;
  throw badInput(`${basename(path)} line ${damaged[0]} is not a line of metrics.`);
}

/** @param add called with every line; null: it is not one of metrics */
const metricsOf = (
  path: string,
  add: (line: StepMetrics | null, number: number) => void,
  restart = (): void => undefined,
): FollowedLines => {
  const line = (text: string | null, number: number) => add(text === null ? null : lineMetrics(text), number);
  return new FollowedLines(path, { restart, line });
};

/** The evaluation that followed a step, in words. */
function evaluationText(line: StepMetrics): string | null {
  const parts = (['greedy', 'sampled'] as const).flatMap((kind) => {
    const [accuracy, thinking] = [line[`eval/${kind}_accuracy`], line[`eval/${kind}_thinking_tokens`]];
    if (accuracy === undefined) return [];
    const tokens = thinking === undefined ? '' : `, ${thinking.toFixed(1)} thinking tokens`;
    return [`${kind} accuracy ${percent(accuracy)}${tokens}`];
  });
  return parts.length === 0 ? null : `Evaluated after step ${line.step}: ${parts.join('; ')}.`;
}
