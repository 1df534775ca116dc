/** Formats the numbers of an evaluation; a number that a file lacks is shown as a dash. */
import type { EvalReport, Interval } from '../../eval';
import { grouped, percent } from '../../base/text';
import { change } from '../view/format';

const UNKNOWN = '-';

export const percentOf = (fraction: number): string => (Number.isNaN(fraction) ? UNKNOWN : percent(fraction));

export const tokensOf = (tokens: number): string => (Number.isNaN(tokens) ? UNKNOWN : tokens.toFixed(1));

/** `79.1-85.0`. */
function range({ low, high }: Interval, text: (end: number) => string): string {
  return Number.isNaN(low) ? UNKNOWN : `${text(low)}-${text(high)}`;
}

export const percentRange = (interval: Interval): string => range(interval, (end) => (100 * end).toFixed(1));
export const tokenRange = (interval: Interval): string => range(interval, (end) => end.toFixed(1));

/** Mean total tokens with the change from the base, as in the paper's table 3. */
export function wholeTokens(tokens: number, base?: number): string {
  if (Number.isNaN(tokens)) return UNKNOWN;
  const text = grouped(Math.round(tokens));
  return base === undefined || Number.isNaN(base) || base === 0 ? text : `${text} (${change(base, tokens)})`;
}

/** `p = 0.031`, `p < 0.001`. */
export const pValue = (p: number): string => (p < 0.001 ? 'p < 0.001' : `p = ${p.toFixed(3)}`);

export const answersOf = (report: EvalReport): string =>
  report.n === report.problems ? `${report.n}` : `${report.n} to ${report.problems} problems`;
