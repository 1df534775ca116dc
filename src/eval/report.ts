/** A summary with its uncertainty: 95% intervals, levels, and figures for several samples. */
import type { VerdictStatus } from '../base/types';
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

const LEVEL_FIGURES = ['accuracy', 'thinkingTokens', 'totalTokens'] as const;
const FIGURES = [
  ...LEVEL_FIGURES,
  'medianThinkingTokens',
  'medianTotalTokens',
  'accuracyPer1kTokens',
  'truncated',
] as const;

/** 95% intervals of the figures with the same names. */
export type EvalIntervals = Record<(typeof FIGURES)[number], Interval>;

/** @param values of each figure on every resample, in the order of `figures` */
const intervalsOf = <Name extends string>(figures: readonly Name[], values: readonly Float64Array[]) =>
  Object.fromEntries(figures.map((name, i) => [name, interval(values[i]!)])) as Record<Name, Interval>;

export interface LevelReport extends LevelSummary {
  intervals: Pick<EvalIntervals, (typeof LEVEL_FIGURES)[number]>;
}

export interface EvalReport extends EvalSummary {
  problems: number;
  intervals: EvalIntervals;
  perLevel: Record<string, LevelReport>;
  statuses: Record<VerdictStatus, number>;
  /** Answers found in thinking that never closed, where the paper's protocol looks, too; and those right. */
  openThinking: { answers: number; correct: number };
  /** Empty if there is one answer per problem. */
  atK: AtK[];
}

/** The median of rows weighted by how often their problem was drawn; values are sorted only once. */
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
      seen += counts[problems[i]!]!;
      if (Number.isNaN(low) && seen > lower) low = values[i]!;
      if (seen > upper) return (low + values[i]!) / 2;
    }
    return 0;
  };
}

/** The quantities behind the means, in this order, for each problem. */
const meanColumns = (groups: readonly EvalRow[][]): Float64Array[] => [
  sums(groups, () => 1),
  sums(groups, (row) => Number(row.verdict.correct)),
  sums(groups, (row) => row.thinkingTokens),
  sums(groups, (row) => row.totalTokens),
];

function intervals(groups: readonly EvalRow[][], options: BootstrapOptions): EvalIntervals {
  const medianThinking = resampledMedian(groups, (row) => row.thinkingTokens);
  const medianTotal = resampledMedian(groups, (row) => row.totalTokens);
  const columns = [...meanColumns(groups), sums(groups, truncation)];
  const values = bootstrap(
    columns,
    (counts, drawn, correct, thinking, total, cut) => [
      correct / drawn,
      thinking / drawn,
      total / drawn,
      medianThinking(counts, drawn),
      medianTotal(counts, drawn),
      per1kTokens(correct / drawn, total / drawn),
      cut / drawn,
    ],
    options,
  );
  return intervalsOf(FIGURES, values);
}

function levelIntervals(rows: readonly EvalRow[], options: BootstrapOptions): LevelReport['intervals'] {
  const values = bootstrap(
    meanColumns(byProblem(rows)),
    (_counts, drawn, correct, thinking, total) => [correct / drawn, thinking / drawn, total / drawn],
    options,
  );
  return intervalsOf(LEVEL_FIGURES, values);
}

function perLevel(rows: readonly EvalRow[], summary: EvalSummary, options: BootstrapOptions) {
  return Object.fromEntries(
    byLevel(rows).map(([level, own]): [string, LevelReport] => [
      level,
      { ...summary.perLevel[level]!, intervals: levelIntervals(own, options) },
    ]),
  );
}

function statusCounts(rows: readonly EvalRow[]): Record<VerdictStatus, number> {
  const counts = { correct: 0, incorrect: 0, unparseable: 0, timeout: 0, 'gold-unparseable': 0 };
  for (const { verdict } of rows) counts[verdict.status]++;
  return counts;
}

function openThinking(rows: readonly EvalRow[]): EvalReport['openThinking'] {
  const open = rows.filter(({ verdict }) => verdict.fromOpenThinking === true);
  return { answers: open.length, correct: open.filter(({ verdict }) => verdict.correct).length };
}

/** All figures of at least one row. The order of `rows` does not matter. */
export function report(rows: readonly EvalRow[], options: BootstrapOptions = {}): EvalReport {
  const groups = byProblem(rows);
  const ordered = [...rows].sort(inOrder);
  const summary = summarise(ordered);
  return {
    ...summary,
    problems: groups.length,
    intervals: intervals(groups, options),
    perLevel: perLevel(ordered, summary, options),
    statuses: statusCounts(ordered),
    openThinking: openThinking(ordered),
    atK: figuresAtK(groups),
  };
}
