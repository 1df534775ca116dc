/** What a figure draws, made of the buckets of one or several runs. */
import { smoothed, type FigureLine, type TimeFigure } from '../../report/figures';
import type { Buckets } from '../buckets';
import { maximum } from '../../base/statistics';

/**
 * - `faint`: single steps behind a moving average, or lines that a rollback took back
 * - `area`: a part of a whole, from 0 up to its upper edge
 */
export type Style = 'line' | 'points' | 'faint' | 'taken' | 'area';

export interface DrawnLine {
  style: Style;
  values: (number | null)[];
  /** Index into the colours. */
  colour: number;
  /** Index into the kinds of dashes. */
  dash: number;
  /** For the key beside the figure; null: not in it. */
  label: string | null;
  /** The values that the key shows, one per bucket. */
  read: (number | null)[];
}

export interface DrawnFigure {
  x: number[];
  /** Points of a bucket: its smallest and its largest value, or one value. */
  pointsPerBucket: 1 | 2;
  lines: DrawnLine[];
}

export interface Drawable {
  buckets: Buckets;
  discarded: readonly Buckets[];
  /** In keys of figures with several runs. */
  name: string;
}

const present = ({ buckets }: Drawable, { metric }: FigureLine): boolean => buckets.has(metric);

/** Whether there is anything to draw. */
export const hasData = (figure: TimeFigure, runs: readonly Drawable[]): boolean =>
  figure.lines.some((line) => runs.some((run) => present(run, line)));

const meansOf = (buckets: Buckets, metric: string, length: number): (number | null)[] =>
  Array.from({ length }, (_, i) => buckets.at(metric, i)?.mean ?? null);

/** One value per point: with two points a bucket the second one is left out. */
const once = (values: (number | null)[], points: 1 | 2): (number | null)[] =>
  points === 1 ? values : values.flatMap((value) => [value, null]);

/** The smallest and the largest value of every bucket. */
const boundsOf = (buckets: Buckets, metric: string, length: number): (number | null)[] =>
  Array.from({ length }, (_, i) => buckets.at(metric, i)).flatMap((bucket) => [
    bucket?.min ?? null,
    bucket?.max ?? null,
  ]);

interface Axis {
  x: number[];
  length: number;
  points: 1 | 2;
}

function axisOf(runs: readonly Drawable[]): Axis {
  const { width, start } = runs[0]!.buckets;
  // A run may have been further before a rollback.
  const all = runs.length > 1 ? runs.map((run) => run.buckets) : [runs[0]!.buckets, ...runs[0]!.discarded];
  const length = maximum(all.map((buckets) => buckets.length));
  const points = width === 1 ? 1 : 2;
  const x = Array.from({ length }, (_, i) => (start + i) * width).flatMap((step) =>
    points === 1 ? [step] : [step, step + width / 2],
  );
  return { x, length, points };
}

function linesOf(
  figure: TimeFigure,
  line: FigureLine,
  run: Drawable,
  { length, points }: Axis,
): Omit<DrawnLine, 'colour' | 'dash' | 'label'>[] {
  const { buckets, discarded } = run;
  const means = meansOf(buckets, line.metric, length);
  if (line.as === 'points') return [{ style: 'points', values: once(means, points), read: means }];
  const taken = discarded
    .filter((old) => old.has(line.metric))
    .map((old) => {
      const values = meansOf(old, line.metric, length);
      const shown = figure.smooth === true ? smoothed(values) : values;
      return { style: 'taken' as const, values: once(shown, points), read: [] };
    });
  const exact = points === 1 ? means : boundsOf(buckets, line.metric, length);
  if (figure.smooth !== true) return [...taken, { style: 'line', values: exact, read: means }];
  const average = smoothed(means);
  return [
    ...taken,
    { style: 'faint', values: exact, read: [] },
    { style: 'line', values: once(average, points), read: average },
  ];
}

/** Parts on top of each other; the highest edge first, so that the areas of lower ones cover it. */
function stackedLines(figure: TimeFigure, run: Drawable, { length, points }: Axis): DrawnLine[] {
  const sums = new Array<number>(length).fill(0);
  const any = new Array<boolean>(length).fill(false);
  const lines = figure.lines.flatMap((line, colour): DrawnLine[] => {
    if (!present(run, line)) return [];
    const means = meansOf(run.buckets, line.metric, length);
    means.forEach((value, i) => {
      sums[i]! += value ?? 0;
      any[i] ||= value !== null;
    });
    const edge = sums.map((sum, i) => (any[i] === true ? sum : null));
    return [{ style: 'area', values: once(edge, points), colour, dash: 0, label: line.label, read: means }];
  });
  return lines.reverse();
}

/** Several runs: their parts added up. */
function totalLine(figure: TimeFigure, run: Drawable, axis: Axis, colour: number): DrawnLine[] {
  return stackedLines(figure, run, axis)
    .slice(0, 1)
    .map((highest) => {
      const read = highest.values.filter((_, i) => i % axis.points === 0);
      return { ...highest, style: 'line', label: run.name, read, colour };
    });
}

/** With several runs these would hide the averages. */
const FAINT: readonly Style[] = ['faint', 'taken'];

/** Runs must have buckets of equal width. With one run lines differ in colour, with several runs do. */
export function drawnFigure(figure: TimeFigure, runs: readonly Drawable[]): DrawnFigure {
  const axis = axisOf(runs);
  const several = runs.length > 1;
  const lines = runs.flatMap((run, r): DrawnLine[] => {
    if (figure.stacked === true) {
      return several ? totalLine(figure, run, axis, r) : stackedLines(figure, run, axis);
    }
    return figure.lines.flatMap((line, l) => {
      if (!present(run, line)) return [];
      const label = several ? `${run.name}, ${line.label}` : line.label;
      const drawn = linesOf(figure, line, run, axis);
      return drawn
        .filter(({ style }) => !several || !FAINT.includes(style))
        .map((made) => ({
          ...made,
          ...(several ? { colour: r, dash: l } : { colour: l, dash: 0 }),
          label: FAINT.includes(made.style) ? null : label,
        }));
    });
  });
  return { x: axis.x, pointsPerBucket: axis.points, lines };
}
