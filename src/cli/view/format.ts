/** Formats times, changes and counts for people. */
import { grouped } from '../../base/text';

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
