/** What a comparison of runs comes to, in one sentence. */
import { AcoerError } from '../base/errors';
import { pairedInterval, type Comparison, type Interval } from '../eval';
import { percent } from '../base/text';
import { accuracyInterval, compareAnswers, KINDS, type BeforeAfter } from './evaluations';
import type { EvaluationKind } from '../run';
import type { RunReport } from './single';
import { pCell, points, tokens } from './tables';

/** A run is less accurate than another when it has fewer right answers to the same problems at this level. */
const SIGNIFICANT = 0.05;

export const evaluationOf = ({ evaluations }: RunReport, kind: EvaluationKind): BeforeAfter | undefined =>
  evaluations.find((one) => one.kind === kind);

/** The answers of `b` against those of `a`; null: they were not kept, or not of the same problems. */
export function comparedOrNull(a: RunReport, b: RunReport, kind: EvaluationKind): Comparison | null {
  try {
    return compareAnswers(evaluationOf(a, kind)?.answers?.trained, evaluationOf(b, kind)?.answers?.trained);
  } catch (error) {
    if (error instanceof AcoerError && error.code === 'BAD_INPUT') return null;
    throw error;
  }
}

/** The difference of accuracy with its interval and p; the bootstrap's interval vanishes when no problem changed. */
export function accuracyTest({ accuracy, mcnemar, pairs }: Comparison): {
  difference: number;
  interval: Interval;
  p: number;
} {
  const exact = mcnemar === null ? null : pairedInterval(mcnemar.onlyA, mcnemar.onlyB, pairs);
  return {
    difference: accuracy.difference,
    interval: exact ?? accuracy.interval,
    p: mcnemar?.p ?? accuracy.p,
  };
}

const pText = (p: number): string => (p < 0.001 ? 'p < 0.001' : `p = ${pCell(p)}`);
const trained = (report: RunReport, kind: EvaluationKind) => evaluationOf(report, kind)!.trained;

/** Whether `b` is less accurate than `a`, and the difference in words. */
function accuracyAgainst(a: RunReport, b: RunReport, kind: EvaluationKind): { lost: boolean; text: string } {
  const compared = comparedOrNull(a, b, kind);
  if (compared === null) {
    const [before, now] = [trained(a, kind), trained(b, kind)];
    const lost = accuracyInterval(now).high < accuracyInterval(before).low;
    return { lost, text: `${percent(now.accuracy)} against ${percent(before.accuracy)}, answers not kept` };
  }
  const { difference, interval, p } = accuracyTest(compared);
  const text = `${points(difference)} points [${points(interval.low)}, ${points(interval.high)}], ${pText(p)}`;
  return { lost: difference < 0 && p < SIGNIFICANT, text };
}

/** `b` is the run with fewer tokens. */
function pairSentence(a: RunReport, b: RunReport, kind: EvaluationKind): string {
  const accuracy = accuracyAgainst(a, b, kind);
  const [before, now] = [trained(a, kind).totalTokens, trained(b, kind).totalTokens];
  const fewer = before === 0 ? '' : `${Math.round(100 * (1 - now / before))}% `;
  const length = `${tokens(now)} against ${tokens(before)}, ${kind}`;
  return accuracy.lost
    ? `${b.run.name} is less accurate than ${a.run.name} (${accuracy.text}), with ${fewer}fewer tokens: ${length}.`
    : `${b.run.name} needs ${fewer}fewer tokens than ${a.run.name}: ${length}; accuracy ${accuracy.text}.`;
}

/** The run with the fewest tokens among those that are not less accurate than the most accurate one. */
function bestSentence(reports: readonly RunReport[], kind: EvaluationKind): string {
  const highest = reports.reduce((a, b) => (trained(b, kind).accuracy > trained(a, kind).accuracy ? b : a));
  const equal = reports.filter(
    (report) => report === highest || !accuracyAgainst(highest, report, kind).lost,
  );
  const best = equal.reduce((a, b) => (trained(b, kind).totalTokens < trained(a, kind).totalTokens ? b : a));
  const { accuracy, totalTokens } = trained(best, kind);
  const figures = `${tokens(totalTokens)} tokens at ${percent(accuracy)}, ${kind}`;
  if (equal.length === 1) {
    return `${best.run.name} is the most accurate of ${reports.length} runs (${figures}); all others are less accurate.`;
  }
  const top = percent(trained(highest, kind).accuracy);
  return `Of ${reports.length} runs ${best.run.name} needs the fewest tokens (${figures}) of those that are not less accurate than the best, ${top}.`;
}

/** null: the runs have no evaluation in common. */
export function comparisonAnswer(reports: readonly RunReport[]): string | null {
  const kind = KINDS.find((one) => reports.every((report) => evaluationOf(report, one) !== undefined));
  if (kind === undefined || reports.length < 2) return null;
  if (reports.length > 2) return bestSentence(reports, kind);
  const [longer, shorter] = [...reports].sort(
    (a, b) => trained(b, kind).totalTokens - trained(a, kind).totalTokens,
  ) as [RunReport, RunReport];
  return pairSentence(longer, shorter, kind);
}
