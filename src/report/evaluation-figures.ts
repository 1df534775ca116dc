/** Figures of evaluations: by level, lengths before and after, and accuracy against tokens. */
import type { EvalSummary } from '../eval';
import { maximum, minimum, quantile } from '../base/statistics';
import { grouped } from '../base/text';
import { accuracyInterval } from './evaluations';
import { colour, loadDrawing, xAxis, yAxis } from '../drawing/svg';

/** Colours of the model before and after training, the same in every figure. */
const BEFORE = 'var(--muted)';
const AFTER = colour(0);
const SIDES = ['before', 'after'] as const;

const sideLegend = { color: { domain: [...SIDES], range: [BEFORE, AFTER] } };

interface Bar {
  level: string;
  side: (typeof SIDES)[number];
  value: number;
  low?: number;
  high?: number;
  text: string;
}

async function bars(
  label: string,
  axis: string,
  sides: readonly [before: EvalSummary, after: EvalSummary],
  of: (level: EvalSummary['perLevel'][string]) => Omit<Bar, 'level' | 'side'>,
): Promise<string> {
  const { Plot, draw } = await loadDrawing('acoer report');
  const rows = SIDES.flatMap((side, i) =>
    Object.entries(sides[i]!.perLevel).map(([level, summary]): Bar => ({ level, side, ...of(summary) })),
  );
  const x = { fx: 'level', x: 'side' } as const;
  return draw(label, {
    ...sideLegend,
    fx: { label: 'level', domain: [...new Set(rows.map(({ level }) => level))], padding: 0.2 },
    x: { axis: null, domain: [...SIDES] },
    y: yAxis(axis),
    marks: [
      Plot.barY(rows, { ...x, y: 'value', fill: 'side' }),
      Plot.ruleX(
        rows.filter(({ low }) => low !== undefined),
        { ...x, y1: 'low', y2: 'high', stroke: 'currentColor', strokeWidth: 1.2 },
      ),
      Plot.text(rows, { ...x, y: (row: Bar) => row.high ?? row.value, text: 'text', dy: -7, fontSize: 10 }),
      Plot.ruleY([0]),
    ],
  });
}

export const levelAccuracySvg = (base: EvalSummary, trained: EvalSummary): Promise<string> =>
  bars(
    'Accuracy by level, before and after',
    'correct answers (%), with 95% intervals',
    [base, trained],
    (level) => {
      const [value, { low, high }] = [100 * level.accuracy, accuracyInterval(level)];
      return { value, low: 100 * low, high: 100 * high, text: value.toFixed(0) };
    },
  );

export const levelTokensSvg = (base: EvalSummary, trained: EvalSummary): Promise<string> =>
  bars(
    'Tokens by level, before and after',
    'tokens of a completion, mean',
    [base, trained],
    ({ totalTokens: value }) => ({ value, text: grouped(Math.round(value)) }),
  );

const BINS = 30;

/** Histograms of lengths on shared bins; the longest hundredth is in the last bin. */
export async function lengthsSvg(
  before: readonly number[],
  after: readonly number[],
  axis: string,
): Promise<string> {
  const { Plot, draw } = await loadDrawing('acoer report');
  const end = Math.max(1, quantile([...before, ...after], 0.99));
  const width = Math.max(1, Math.ceil(maximum([end, 1]) / BINS));
  const rows = SIDES.flatMap((side, i) => {
    const counts = new Array<number>(BINS + 1).fill(0);
    const lengths = i === 0 ? before : after;
    for (const length of lengths) counts[Math.min(BINS, Math.floor(length / width))]!++;
    return counts.map((count, bin) => ({
      side,
      from: bin * width,
      to: (bin + 1) * width,
      share: (100 * count) / lengths.length,
    }));
  }).filter(({ share }) => share > 0);
  return draw('Histogram of lengths before and after', {
    ...sideLegend,
    x: { ...xAxis(axis), ticks: 6 },
    y: yAxis('share of answers (%)'),
    marks: [
      Plot.rectY(rows, {
        x1: 'from',
        x2: 'to',
        // Not stacked: one lies over the other.
        y1: 0,
        y2: 'share',
        fill: 'side',
        fillOpacity: 0.55,
        stroke: 'side',
        insetLeft: 0.5,
        insetRight: 0.5,
      }),
      Plot.ruleY([0]),
    ],
  });
}

/** Accuracies are fractions, 0..1. */
export const PARETO_VALUES = [
  'accuracy',
  'accuracyLow',
  'accuracyHigh',
  'tokens',
  'tokensLow',
  'tokensHigh',
] as const;

/** A model in the plane of accuracy and tokens. */
export interface ParetoPoint extends Record<(typeof PARETO_VALUES)[number], number> {
  label: string;
  /** Index of its colour; null: the base model. */
  index: number | null;
  /** One seed of a method: a small dot without bars and name, which the front passes by. */
  small?: boolean;
}

/** Points that no other beats in both accuracy and tokens, from few tokens to many. */
export function paretoFront(points: readonly ParetoPoint[]): ParetoPoint[] {
  const beats = (a: ParetoPoint, b: ParetoPoint) =>
    a.accuracy >= b.accuracy && a.tokens <= b.tokens && (a.accuracy > b.accuracy || a.tokens < b.tokens);
  return points
    .filter((point) => !points.some((other) => beats(other, point)))
    .sort((a, b) => a.tokens - b.tokens);
}

const PARETO = { width: 720, height: 400, marginTop: 24, marginRight: 150, marginBottom: 44, marginLeft: 52 };
const LABEL_HEIGHT = 15;
const LETTER_WIDTH = 8;

/** The range of the values, and a little more. */
function padded(values: readonly number[]): [number, number] {
  const [low, high] = [minimum(values), maximum(values)];
  const pad = 0.05 * (high - low || Math.abs(high) || 1);
  return [low - pad, high + pad];
}

interface PlacedLabel extends ParetoPoint {
  /** Pixels below its point's height. */
  dy: number;
}

/** Labels right of their points; where two would overlap, the lower point's label moves down. */
function placedLabels(
  points: readonly ParetoPoint[],
  [left, right]: readonly [number, number],
  [low, high]: readonly [number, number],
): PlacedLabel[] {
  const { width, height, marginTop, marginRight, marginBottom, marginLeft } = PARETO;
  const perPoint = (height - marginTop - marginBottom) / (high - low);
  const perToken = (width - marginLeft - marginRight) / (right - left);
  const placed: (PlacedLabel & { at: number; from: number; to: number })[] = [];
  for (const point of [...points].sort((a, b) => b.accuracy - a.accuracy)) {
    const own = (high - 100 * point.accuracy) * perPoint;
    const from = point.tokens * perToken;
    const to = from + LETTER_WIDTH * point.label.length;
    const inTheWay = placed.filter((other) => other.from < to && from < other.to).sort((a, b) => a.at - b.at);
    const at = inTheWay.reduce(
      (y, other) => (Math.abs(other.at - y) < LABEL_HEIGHT ? other.at + LABEL_HEIGHT : y),
      own,
    );
    placed.push({ ...point, at, from, to, dy: at - own });
  }
  return placed;
}

/** The paper's main figure: accuracy against mean total tokens, with intervals and the Pareto front. */
export async function paretoSvg(points: readonly ParetoPoint[]): Promise<string> {
  const { Plot, draw } = await loadDrawing('acoer report');
  const large = points.filter(({ small }) => small !== true);
  const front = paretoFront(large);
  const stroke = ({ index }: ParetoPoint) => (index === null ? 'var(--muted)' : colour(index));
  const percent = (name: 'accuracy' | 'accuracyLow' | 'accuracyHigh') => (point: ParetoPoint) =>
    100 * point[name];
  const xy = { x: 'tokens', y: percent('accuracy') };
  const bar = { stroke, strokeWidth: 1.4 };
  const yDomain = padded(points.flatMap((point) => [100 * point.accuracyLow, 100 * point.accuracyHigh]));
  const xDomain = padded(points.flatMap((point) => [point.tokensLow, point.tokensHigh]));
  return draw('Accuracy against tokens', {
    ...PARETO,
    x: { ...xAxis('tokens of a completion, mean'), grid: true, domain: xDomain },
    y: { ...yAxis('correct answers (%)'), domain: yDomain, ticks: 6 },
    marks: [
      Plot.line(front, {
        ...xy,
        stroke: 'currentColor',
        strokeOpacity: 0.45,
        strokeDasharray: '5 4',
        curve: 'step-after',
      }),
      Plot.ruleX(large, { x: 'tokens', y1: percent('accuracyLow'), y2: percent('accuracyHigh'), ...bar }),
      Plot.ruleY(large, { y: percent('accuracy'), x1: 'tokensLow', x2: 'tokensHigh', ...bar }),
      Plot.dot(
        points.filter(({ small }) => small === true),
        { ...xy, r: 2.6, fill: stroke, fillOpacity: 0.6 },
      ),
      Plot.dot(large, { ...xy, r: 5, fill: stroke, stroke: 'var(--page)', strokeWidth: 1.5 }),
      ...placedLabels(large, xDomain, yDomain).map((label) =>
        Plot.text([label], {
          ...xy,
          text: 'label',
          fill: stroke,
          textAnchor: 'start',
          dx: 12,
          dy: label.dy,
          fontSize: 12,
          fontWeight: 600,
          stroke: 'var(--page)',
          strokeWidth: 4,
        }),
      ),
    ],
  });
}
