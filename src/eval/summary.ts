/** Figures of an evaluation from its graded completions. */
import type { Thinking, Verdict } from '../types';

export interface Graded extends Thinking {
  level: string | null;
  verdict: Verdict;
  totalTokens: number;
  /** Ended by the token limit. */
  truncated: boolean;
}

/** Means over a set of completions; tokens are 0 when the set is empty. */
export interface TokenMeans {
  n: number;
  thinkingTokens: number;
  totalTokens: number;
}

export interface LevelSummary {
  /** Fraction, 0..1. */
  accuracy: number;
  thinkingTokens: number;
  n: number;
}

export interface EvalSummary {
  n: number;
  /** Fraction, 0..1. */
  accuracy: number;
  /** Means over all completions. */
  thinkingTokens: number;
  totalTokens: number;
  medianThinkingTokens: number;
  /** Accuracy in percent over the mean total tokens in thousands. */
  accuracyPer1kTokens: number;
  correct: TokenMeans;
  incorrect: TokenMeans;
  /** Share of completions ended by the token limit, 0..1. */
  truncated: number;
  /** By level, in the order of the levels' names; empty when the data names none. */
  perLevel: Record<string, LevelSummary>;
}

const mean = (values: readonly number[]): number =>
  values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  if (sorted.length === 0) return 0;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

const thinkingMean = (rows: readonly Graded[]): number => mean(rows.map((row) => row.thinkingTokens));
const accuracyOf = (rows: readonly Graded[]): number => mean(rows.map((row) => Number(row.verdict.correct)));

const tokenMeans = (rows: readonly Graded[]): TokenMeans => ({
  n: rows.length,
  thinkingTokens: thinkingMean(rows),
  totalTokens: mean(rows.map((row) => row.totalTokens)),
});

function perLevel(rows: readonly Graded[]): Record<string, LevelSummary> {
  const levels = [...new Set(rows.flatMap(({ level }) => (level === null ? [] : [level])))];
  levels.sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
  return Object.fromEntries(
    levels.map((level) => {
      const own = rows.filter((row) => row.level === level);
      return [level, { accuracy: accuracyOf(own), thinkingTokens: thinkingMean(own), n: own.length }];
    }),
  );
}

export function summarise(rows: readonly Graded[]): EvalSummary {
  const all = tokenMeans(rows);
  const accuracy = accuracyOf(rows);
  return {
    n: all.n,
    accuracy,
    thinkingTokens: all.thinkingTokens,
    totalTokens: all.totalTokens,
    medianThinkingTokens: median(rows.map((row) => row.thinkingTokens)),
    accuracyPer1kTokens: all.totalTokens === 0 ? 0 : (100 * accuracy) / (all.totalTokens / 1000),
    correct: tokenMeans(rows.filter((row) => row.verdict.correct)),
    incorrect: tokenMeans(rows.filter((row) => !row.verdict.correct)),
    truncated: mean(rows.map((row) => Number(row.truncated))),
    perLevel: perLevel(rows),
  };
}
