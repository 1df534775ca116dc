/** Curves of one line of text. */
import type { KnownMetrics } from '../../base/metric-names';
import { maximum, mean, minimum } from '../../base/statistics';
import { percent } from '../../base/text';

const BARS = '▁▂▃▄▅▆▇█';

/** The values between which bars are drawn. */
export interface Scale {
  /** The lowest bar's value is the smallest one, but never below this. */
  low: number;
  high: number;
  /** The lowest and the highest bar are at least this far apart, so that noise does not look like a fall. */
  span: number;
}

/** Accuracy as a fraction. */
export const ACCURACY: Scale = { low: 0, high: 1, span: 0.3 };

/** Tokens: the lowest bar is 0, so that heights compare as the numbers do. */
export const TOKENS: Scale = { low: 0, high: Infinity, span: Infinity };

/** Means of at most `width` consecutive stretches, as equal in length as possible. */
function stretches(values: readonly number[], width: number): number[] {
  const n = Math.min(width, values.length);
  const place = (i: number) => Math.floor((i * values.length) / n);
  return Array.from({ length: n }, (_, i) => mean(values.slice(place(i), place(i + 1))));
}

/** Where the bars of `values` begin and end. */
function ends(values: readonly number[], { low, high, span }: Scale): [bottom: number, top: number] {
  const [least, most] = [minimum(values), maximum(values)];
  if (span === Infinity) return [low, most];
  const top = Math.min(high, Math.max(most, least + span));
  return [Math.max(low, Math.min(least, top - span)), top];
}

/** One character for each value, or for each of `width` equal stretches if there are more. */
export function sparkline(values: readonly number[], width: number, scale: Scale): string {
  const heights = stretches(values, width);
  const [bottom, top] = ends(heights, scale);
  const highest = BARS.length - 1;
  const bar = (value: number) => (top > bottom ? (highest * (value - bottom)) / (top - bottom) : 0);
  return heights.map((value) => BARS[Math.round(bar(value))]).join('');
}

const MAX_CURVE = 60;
const LABEL = 10;
/** `100.0%`, a space on both sides and another number. */
const NUMBERS = 16;

const valuesOf = (lines: readonly KnownMetrics[], name: keyof KnownMetrics): number[] =>
  lines.map((line) => line[name]).filter((value): value is number => value !== undefined);

/** Accuracy and thinking tokens of training over all steps, each between the means of its first and last tenth. */
export function curveLines(lines: readonly KnownMetrics[], width: number): string[] {
  const columns = Math.max(1, Math.min(MAX_CURVE, width - LABEL - NUMBERS));
  const curve = (label: string, values: number[], scale: Scale, text: (value: number) => string) => {
    if (values.length < 2) return [];
    const tenth = Math.ceil(values.length / 10);
    const [first, last] = [values.slice(0, tenth), values.slice(-tenth)].map((part) => text(mean(part)));
    return [
      `${label.padEnd(LABEL)}${first!.padStart(6)} ${sparkline(values, columns, scale)} ${last!.padStart(6)}`,
    ];
  };
  return [
    ...curve('accuracy', valuesOf(lines, 'accuracy/mean'), ACCURACY, (value) => percent(value)),
    ...curve('thinking', valuesOf(lines, 'thinking/mean'), TOKENS, (value) => value.toFixed(1)),
  ];
}
