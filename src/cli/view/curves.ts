/** The curves of a whole run, for its end. */
import type { KnownMetrics } from '../../base/metric-names';
import { mean } from '../../base/statistics';
import { percent } from '../../base/text';
import { ACCURACY, sparkline, TOKENS, type Scale } from './sparkline';

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
