/** A summary with its uncertainty: 95% intervals, levels, and the figures of several samples. */
import type { VerdictStatus } from '../types';
import { bootstrap, type BootstrapOptions, interval, type Interval } from './bootstrap';
import { byProblem, inOrder, sums } from './problems';
import {
  byLevel,
  type EvalRow,
  type EvalSummary,
  type LevelSummary,
  per1kTokens,
  summarise,
  truncation,
} from './summary';
import { type AtK, figuresAtK } from './votes';

/** 95% intervals of the figures of the same names. */
export interface EvalIntervals {
  accuracy: Interval;
  thinkingTokens: Interval;
  totalTokens: Interval;
  medianThinkingTokens: Interval;
  medianTotalTokens: Interval;
  accuracyPer1kTokens: Interval;
  truncated: Interval;
}

export interface LevelReport extends LevelSummary {
  intervals: Pick<EvalIntervals, 'accuracy' | 'thinkingTokens' | 'totalTokens'>;
}

export interface EvalReport extends EvalSummary {
  problems: number;
  intervals: EvalIntervals;
  perLevel: Record<string, LevelReport>;
  statuses: Record<VerdictStatus, number>;
  /** Empty with one answer a problem. */
  atK: AtK[];
}

const weighted = (counts: Int32Array, values: Float64Array): number => {
  let total = 0;
  for (let i = 0; i < values.length; i++) total += counts[i] * values[i];
  return total;
};

/** The median of rows drawn as often as their problems: problems are numbered once, values sorted once. */
function resampledMedian(
  groups: readonly EvalRow[][],
  value: (row: EvalRow) => number,
): (counts: Int32Array, drawn: number) => number {
  const entries = groups.flatMap((group, problem) => group.map((row) => ({ problem, value: value(row) })));
  if (entries.some((entry) => Number.isNaN(entry.value))) return () => NaN;
  entries.sort((a, b) => a.value - b.value);
  const problems = Int32Array.from(entries, (entry) => entry.problem);
  const values = Float64Array.from(entries, (entry) => entry.value);
  return (counts, drawn) => {
    const [lower, upper] = [(drawn - 1) >> 1, drawn >> 1];
    let seen = 0;
    let low = NaN;
    for (let i = 0; i < values.length; i++) {
      seen += counts[problems[i]];
      if (Number.isNaN(low) && seen > lower) low = values[i];
      if (seen > upper) return (low + values[i]) / 2;
    }
    return 0;
  };
}

function intervals(groups: readonly EvalRow[][], options: BootstrapOptions): EvalIntervals {
  const answers = sums(groups, () => 1);
  const correct = sums(groups, (row) => Number(row.verdict.correct));
  const thinking = sums(groups, (row) => row.thinkingTokens);
  const total = sums(groups, (row) => row.totalTokens);
  const cut = sums(groups, truncation);
  const medianThinking = resampledMedian(groups, (row) => row.thinkingTokens);
  const medianTotal = resampledMedian(groups, (row) => row.totalTokens);
  const values = bootstrap(
    groups.length,
    (counts) => {
      const drawn = weighted(counts, answers);
      const [accuracy, totalTokens] = [weighted(counts, correct) / drawn, weighted(counts, total) / drawn];
      return [
        accuracy,
        weighted(counts, thinking) / drawn,
        totalTokens,
        medianThinking(counts, drawn),
        medianTotal(counts, drawn),
        per1kTokens(accuracy, totalTokens),
        weighted(counts, cut) / drawn,
      ];
    },
    options,
  );
  const [
    accuracy,
    thinkingTokens,
    totalTokens,
    medianThinkingTokens,
    medianTotalTokens,
    perThousand,
    truncated,
  ] = values.map(interval);
  return {
    accuracy,
    thinkingTokens,
    totalTokens,
    medianThinkingTokens,
    medianTotalTokens,
    accuracyPer1kTokens: perThousand,
    truncated,
  };
}

function perLevel(rows: readonly EvalRow[], summary: EvalSummary, options: BootstrapOptions) {
  return Object.fromEntries(
    byLevel(rows).map(([level, own]): [string, LevelReport] => {
      const { accuracy, thinkingTokens, totalTokens } = intervals(byProblem(own), options);
      return [level, { ...summary.perLevel[level], intervals: { accuracy, thinkingTokens, totalTokens } }];
    }),
  );
}

function statusCounts(rows: readonly EvalRow[]): Record<VerdictStatus, number> {
  const counts = { correct: 0, incorrect: 0, unparseable: 0, timeout: 0, 'gold-unparseable': 0 };
  for (const { verdict } of rows) counts[verdict.status]++;
  return counts;
}

/** All figures of one or more rows. The order of `rows` does not matter. */
export function report(rows: readonly EvalRow[], options: BootstrapOptions = {}): EvalReport {
  const ordered = [...rows].sort(inOrder);
  const groups = byProblem(ordered);
  const summary = summarise(ordered);
  return {
    ...summary,
    problems: groups.length,
    intervals: intervals(groups, options),
    perLevel: perLevel(ordered, summary, options),
    statuses: statusCounts(ordered),
    atK: figuresAtK(groups),
  };
}
