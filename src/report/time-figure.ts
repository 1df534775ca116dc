/** A figure over the steps of one run or of several, as lines and as SVG. */
import { wilsonInterval } from '../eval';
import { maximum, minimum } from '../base/statistics';
import type { StepMetrics } from '../base/types';
import { formatValue, smoothed, type FigureLine, type TimeFigure } from './figures';
import type { Mark } from './shown';
import { colour, dashes, FIGURE_SIZE, loadDrawing, xAxis, yAxis, type Plot } from '../drawing/svg';

export interface Point {
  step: number;
  value: number;
  /** A 95% interval. */
  low?: number;
  high?: number;
}

/** A line as it is drawn. */
export interface DrawnLine {
  label: string;
  /** Index of its colour. */
  index: number;
  as: 'line' | 'points';
  points: readonly Point[];
  /** Values of single steps behind a moving average, or the least and the most of several runs. */
  behind?: readonly Point[];
  band?: readonly Point[];
  /** Taken back by rollbacks: drawn faintly. */
  discarded?: readonly (readonly Point[])[];
}

/** What one run brings to its figures. */
export interface StepValues {
  lines: readonly StepMetrics[];
  discarded: readonly (readonly StepMetrics[])[];
  /** Problems of an evaluation, for its interval; missing if unknown. */
  evaluated: { greedy?: number; sampled?: number };
}

/** More points than pixels only make a file larger. */
const MOST_POINTS = 360;

/** Every n-th point and the last, at most `most`. */
export function thinned<T>(points: readonly T[], most = MOST_POINTS): readonly T[] {
  if (points.length <= most) return points;
  const every = Math.ceil(points.length / most);
  return points.filter((_, i) => i % every === 0 || i === points.length - 1);
}

export function pointsOf(lines: readonly StepMetrics[], metric: string): Point[] {
  return lines.flatMap((line) => {
    const value = line[metric];
    return value === undefined ? [] : [{ step: line.step!, value }];
  });
}

export function smoothPoints(points: readonly Point[]): Point[] {
  const values = smoothed(points.map(({ value }) => value));
  return points.map((point, i) => ({ ...point, value: values[i]! }));
}

/** Adds the interval of an accuracy that was measured on `n` problems. */
function withInterval(point: Point, n: number | undefined): Point {
  if (n === undefined) return point;
  const { low, high } = wilsonInterval(Math.round(point.value * n), n);
  return { ...point, low, high };
}

function evaluatedBy({ metric }: FigureLine, { evaluated }: StepValues): number | undefined {
  if (metric === 'eval/greedy_accuracy') return evaluated.greedy;
  return metric === 'eval/sampled_accuracy' ? evaluated.sampled : undefined;
}

function lineOf(figure: TimeFigure, line: FigureLine, index: number, values: StepValues): DrawnLine {
  const { metric, label, as } = line;
  const points = pointsOf(values.lines, metric).map((point) =>
    withInterval(point, evaluatedBy(line, values)),
  );
  const discarded = values.discarded.map((lines) => thinned(pointsOf(lines, metric)));
  const shared = { label, index, as, discarded: as === 'points' || figure.stacked ? [] : discarded };
  if (!figure.smooth || as === 'points') return { ...shared, points: thinned(points) };
  return { ...shared, points: thinned(smoothPoints(points)), behind: thinned(points) };
}

/** The lines that have values, in the figure's order; none if the run does not have them. */
export function linesOf(figure: TimeFigure, values: StepValues): DrawnLine[] {
  const lines = figure.lines
    .map((line, index) => lineOf(figure, line, index, values))
    .filter(({ points }) => points.length > 0);
  const flat = ({ points }: DrawnLine) => points.every(({ value }) => value === 0);
  return lines.every(flat) ? lines : lines.filter((line) => !flat(line));
}

const MARKS: Readonly<Record<Mark['kind'], readonly [sign: string, stroke: string]>> = {
  healthy: ['✓', 'var(--good)'],
  warning: ['!', 'var(--warn)'],
  collapsed: ['✕', 'var(--bad)'],
  rollback: ['↩', 'var(--muted)'],
  refused: ['∅', 'var(--bad)'],
};
/** In a run whose every step is refused, more marks say nothing more. */
const MOST_MARKS = 40;

function marks(Plot: Plot, all: readonly Mark[]) {
  const shown = all.slice(0, MOST_MARKS);
  const stroke = ({ kind }: Mark) => MARKS[kind][1];
  return [
    Plot.ruleX(shown, { x: 'step', stroke, strokeDasharray: '2 3', strokeOpacity: 0.8, title: 'text' }),
    Plot.text(shown, {
      x: 'step',
      frameAnchor: 'top',
      dy: -10,
      text: ({ kind }: Mark) => MARKS[kind][0],
      fill: stroke,
      fontWeight: 'bold',
      fontSize: 11,
      title: 'text',
    }),
  ];
}

const LABEL_LINE = 12;

/** `text` in lines of about 12 characters. */
function wrapped(text: string): string {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + word.length < 12) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines.join('\n');
}

interface EndLabel {
  text: string;
  index: number;
  /** Where the line ends. */
  step: number;
  value: number;
  /** Where the label stands, on the axis of values. */
  at: number;
}

const FRAME_PIXELS = FIGURE_SIZE.height - 60;
/** Labels nearer than this to the ends of their lines need no leaders. */
const NEAR_PIXELS = 3;

interface Placed {
  text: string;
  /** Pixels from the top. */
  at: number;
  size: number;
}

/** Moves labels apart, so that none covers another. */
function moveApart(labels: Placed[]): void {
  labels.sort((a, b) => a.at - b.at);
  for (let i = 1; i < labels.length; i++) {
    const [above, below] = [labels[i - 1]!, labels[i]!];
    below.at = Math.max(below.at, above.at + (above.size + below.size) / 2 + 2);
  }
  const over = Math.max(0, (labels.at(-1)?.at ?? 0) - FRAME_PIXELS);
  for (let i = labels.length - 1, room = FRAME_PIXELS; i >= 0; i--) {
    const label = labels[i]!;
    if (over > 0) label.at = Math.min(label.at, room);
    room = label.at - label.size - 2;
  }
}

/**
 * Labels at the ends of lines with the last values, which their height alone would not tell once they are moved apart;
 * without these where there is no room for them.
 * @param shown the lines as they are drawn, at whose ends the labels belong
 */
function endLabels(
  { unit, stacked: whole }: TimeFigure,
  lines: readonly DrawnLine[],
  shown: readonly DrawnLine[],
  [low, high]: readonly [number, number],
): EndLabel[] {
  const perPixel = (high - low) / FRAME_PIXELS;
  const placed = (withValues: boolean) =>
    shown.map(({ label, index, points }, i) => {
      const { step, value } = points.at(-1)!;
      const last = withValues ? ` ${formatValue(lines[i]!.points.at(-1)!.value, unit)}` : '';
      const text = wrapped(`${label}${last}`);
      const size = text.split('\n').length * LABEL_LINE;
      return { text, index, step, value, at: (high - value) / perPixel, size };
    });
  const full = placed(true);
  // The parts of a single step say nothing of the run.
  const fits = whole !== true && full.reduce((sum, { size }) => sum + size + 2, 0) <= FRAME_PIXELS;
  const labels = fits ? full : placed(false);
  moveApart(labels);
  return labels.map(({ at, size: _, ...label }) => ({ ...label, at: high - at * perPixel }));
}

function yDomain({ fromZero, unit }: TimeFigure, lines: readonly DrawnLine[]): [number, number] {
  const all = lines
    .flatMap(({ points, behind, band, discarded }) => [points, behind ?? [], band ?? [], discarded ?? []])
    .flat(2)
    .flatMap(({ value, low, high }) => [value, low ?? value, high ?? value]);
  let [low, high] = [minimum(all), maximum(all)];
  if (fromZero === true) low = Math.min(0, low);
  if (low === high)
    [low, high] = [low - (low === 0 ? 0 : Math.abs(low) * 0.1), high + (Math.abs(high) * 0.1 || 1)];
  const pad = 0.04 * (high - low);
  const top = unit === 'fraction' && high <= 1 ? Math.min(1.01, high + pad) : high + pad;
  return [low === 0 ? 0 : Math.max(low - pad, unit === 'fraction' && low >= 0 ? 0 : -Infinity), top];
}

function lineMarks(Plot: Plot, { points, behind, band, discarded = [], index, as }: DrawnLine) {
  const stroke = colour(index);
  const xy = { x: 'step', y: 'value' } as const;
  const intervals = points.filter(({ low }) => low !== undefined);
  return [
    band && Plot.areaY(band, { x: 'step', y1: 'low', y2: 'high', fill: stroke, fillOpacity: 0.18 }),
    behind && Plot.line(behind, { ...xy, stroke, strokeWidth: 0.8, strokeOpacity: 0.3 }),
    ...discarded.map((lost) =>
      Plot.line(lost, { ...xy, stroke, strokeWidth: 1, strokeOpacity: 0.5, strokeDasharray: '1 3' }),
    ),
    Plot.ruleX(intervals, { x: 'step', y1: 'low', y2: 'high', stroke, strokeWidth: 1.2 }),
    // A line between the evaluations before and after would show a course that nobody measured.
    as === 'points' && points.length <= 2
      ? null
      : Plot.line(points, {
          ...xy,
          stroke,
          // Nothing was measured between evaluations.
          ...(as === 'points'
            ? { strokeWidth: 1.2, strokeDasharray: '4 3' }
            : { strokeWidth: 2, strokeDasharray: dashes(index) }),
        }),
    as === 'points' || points.length === 1
      ? Plot.dot(points, { ...xy, r: 3, fill: 'var(--page)', stroke, strokeWidth: 2 })
      : null,
  ];
}

/** Axis ticks without the unit that the axis' label names. */
const tick = (unit: TimeFigure['unit']) => (value: number) => formatValue(value, unit).replace(/(%| s)$/, '');

function stackedMarks(Plot: Plot, lines: readonly DrawnLine[]) {
  const rows = lines.flatMap(({ points, label, index }) =>
    points.map(({ step, value }) => ({ step, value, label, index })),
  );
  const order = lines.map(({ label }) => label);
  const fill = ({ index }: DrawnLine) => colour(index);
  return [Plot.areaY(rows, Plot.stackY({ order }, { x: 'step', y: 'value', z: 'label', fill }))];
}

/** Parts of a whole at the height of their tops, or at their middles, where a label belongs. */
function stacked(lines: readonly DrawnLine[], at: 'top' | 'middle'): DrawnLine[] {
  const sums = new Map<number, number>();
  return lines.map((line) => ({
    ...line,
    points: line.points.map(({ step, value }) => {
      const top = (sums.get(step) ?? 0) + value;
      sums.set(step, top);
      return { step, value: at === 'top' ? top : top - value / 2 };
    }),
  }));
}

/** For the labels. */
const MARGIN_RIGHT = 104;
const LEADER_PIXELS = 9;
/** Of the plot, without its margins. */
const PLOT_PIXELS = FIGURE_SIZE.width - 52 - MARGIN_RIGHT;

/** From the end of a line to its label, where the two are apart. */
function leaders(
  Plot: Plot,
  labels: readonly EndLabel[],
  [low, high]: readonly [number, number],
  [begin, end]: readonly [number, number],
) {
  const near = (NEAR_PIXELS * (high - low)) / FRAME_PIXELS;
  const moved = labels.filter(({ value, at }) => Math.abs(at - value) > near);
  return Plot.link(moved, {
    x1: 'step',
    y1: 'value',
    x2: () => end + (LEADER_PIXELS * (end - begin)) / PLOT_PIXELS,
    y2: 'at',
    stroke: ({ index }: EndLabel) => colour(index),
    strokeWidth: 0.8,
    strokeOpacity: 0.8,
  });
}

/** @param lines at least one */
export async function timeFigureSvg(
  figure: TimeFigure,
  lines: readonly DrawnLine[],
  all: readonly Mark[],
): Promise<string> {
  const { Plot, draw } = await loadDrawing('acoer report');
  const whole = figure.stacked === true;
  const domain = yDomain(figure, whole ? stacked(lines, 'top') : lines);
  const steps = lines.flatMap(({ points, discarded = [] }) =>
    [...points, ...discarded.flat()].map(({ step }) => step),
  );
  const labels = endLabels(figure, lines, whole ? stacked(lines, 'middle') : lines, domain);
  const end = maximum(steps);
  const begin = Math.min(minimum(steps), end - 1);
  return draw(`${figure.title}: ${lines.map(({ label }) => label).join(', ')}`, {
    marginRight: MARGIN_RIGHT,
    x: {
      ...xAxis('step'),
      domain: [begin, end],
      ticks: 5,
      tickFormat: (step: number) => String(step),
    },
    y: { ...yAxis(figure.axis), domain, tickFormat: tick(figure.unit) },
    marks: [
      ...(whole ? stackedMarks(Plot, lines) : lines.flatMap((line) => lineMarks(Plot, line))),
      ...marks(Plot, all),
      leaders(Plot, labels, domain, [begin, end]),
      Plot.text(labels, {
        x: () => end,
        y: 'at',
        text: 'text',
        fill: ({ index }: EndLabel) => colour(index),
        textAnchor: 'start',
        dx: LEADER_PIXELS + 3,
        fontSize: 11,
        fontWeight: 600,
      }),
    ],
  });
}
