/** Formats times, changes and counts for people. */
import { grouped } from '../../base/text';
import type { Spread } from '../../bench';
import type { HealthChange } from '../../monitor';

/** A relative change in percent with its sign; empty if the value before was 0. */
export function change(before: number, after: number): string {
  if (before === 0) return '';
  const points = Math.round(100 * (after / before - 1));
  return points > 0 ? `+${points}%` : `${points === 0 ? 0 : points}%`;
}

/** `+1.5`: a difference of two fractions in percentage points. */
export const points = (difference: number): string =>
  `${difference > 0 ? '+' : ''}${(100 * difference).toFixed(1)}`;

export function count(value: number, noun: string): string {
  return `${grouped(value)} ${noun}${value === 1 ? '' : 's'}`;
}

/** In what a model's weights are. */
export const typeOf = ({ dtype, quantization }: { dtype: string; quantization: string | null }): string =>
  quantization === null ? dtype : `${quantization} and ${dtype}`;

/** A change of the collapse monitor's state as printed by runs and `acoer monitor`. */
export const healthLine = ({ step, from, to, reason }: HealthChange): string =>
  `step ${step}: ${from} -> ${to}. ${reason}`;

/** A median with its range, to three significant digits, and whole from 1000 on as rounded. */
export function withSpread({ median, min, max }: Spread, scale = 1): string {
  const text = (value: number): string => {
    const scaled = value * scale;
    return scaled >= 999.5 ? scaled.toFixed(0) : scaled.toPrecision(3);
  };
  return `${text(median)} (${text(min)}-${text(max)})`;
}
