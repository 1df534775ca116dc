/** The outcome of a run in a few lines, derived from its numbers alone. */
import type { AccuracyChange } from '../../eval';
import { runVerdict, type MonitorCourse, type PeakComparison, type RunSummary } from '../../train';
import type { KnownMetrics } from '../../base/metric-names';
import { percent } from '../../base/text';
import { change, points } from './format';

/** Longer answers are reported if they grew by this fraction and by this share of the tokens saved. */
const GREW = 0.25;
const GREW_OF_SAVED = 0.1;

function accuracyFact({ before, after, n, difference, interval }: AccuracyChange): string {
  const change = `${points(difference)} points (95% ${points(interval.low)} to ${points(interval.high)})`;
  return `base ${percent(before)} -> ${percent(after)} of ${n} problems, ${change}`;
}

function peakFact({ of, peak, peakStep, end, standardError }: PeakComparison): string {
  const where = of === 'training' ? `averages of training` : `${of} evaluations`;
  const errors = standardError > 0 ? `, ${((peak - end) / standardError).toFixed(1)} standard errors` : '';
  return `${percent(peak)} at step ${peakStep} -> ${percent(end)}${errors} (${where})`;
}

function monitorFact({ warnedAt, collapsedAt, end }: MonitorCourse): string | null {
  if (warnedAt === null) return null;
  const said =
    collapsedAt === null ? `warned at step ${warnedAt}` : `found a collapse at step ${collapsedAt}`;
  return `${said}; ${end} at the end`;
}

/** The closing lines: what happened and the numbers behind it, each under 90 columns. */
export function closingLines(summary: RunSummary, lines: readonly KnownMetrics[]): string[] {
  const verdict = runVerdict(summary, lines);
  if (verdict === null) return [];
  const { sentence, greedy, sampled, peak, monitor, thinking, outside } = verdict;
  const lengths = ({ before, after }: typeof thinking) =>
    `${before.toFixed(1)} -> ${after.toFixed(1)} tokens`;
  const grown = outside.after - outside.before;
  const grew = grown > GREW * outside.before && grown > GREW_OF_SAVED * (thinking.before - thinking.after);
  const facts: [string, string | null][] = [
    ['thinking', `${lengths(thinking)} (${change(thinking.before, thinking.after)})`],
    ['outside', grew ? `${lengths(outside)} outside the thinking block, an increase` : null],
    ['greedy', greedy && accuracyFact(greedy)],
    ['sampled', sampled && accuracyFact(sampled)],
    ['own peak', peak?.fell === true ? peakFact(peak) : null],
    ['monitor', monitorFact(monitor)],
  ];
  const shown = facts.filter((fact): fact is [string, string] => fact[1] !== null);
  return [sentence, ...shown.map(([name, text]) => `  ${name.padEnd(8)}  ${text}`)];
}
