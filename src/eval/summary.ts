/** Figures of an evaluation from its graded completions. */
import { mean as meanOf, median as medianOf } from '../base/statistics';
import type { Outside, Thinking, Verdict } from '../base/types';

export interface Graded extends Thinking, Outside {
  level: string | null;
  verdict: Verdict;
  /** Tokens of the completion including its stop id; NaN, like `thinkingTokens`, if a file lacks them. */
  totalTokens: number;
  /** Ended by the token limit; null if a file does not say. */
  truncated: boolean | null;
}

/** One answer to one problem. Enough for every figure: five thousand rows take about a megabyte. */
export interface EvalRow extends Graded {
  /** Index of the problem in the benchmark, from 0. */
  index: number;
  /** Index among the answers to that problem, from 0. */
  sample: number;
  problemId: string;
  /** null if the problem has no reference answer. */
  gold: string | null;
}

/** Means over a set of completions; tokens are 0 for an empty set. */
export interface TokenMeans {
  n: number;
  thinkingTokens: number;
  totalTokens: number;
}

export interface LevelSummary extends TokenMeans {
  /** Fraction, 0..1. */
  accuracy: number;
}

/** Figures of a set of completions; NaN (null in JSON) where a file of completions lacks them. */
export interface EvalSummary extends LevelSummary {
  /** Fields of `Outside`; absent if the completions lack them. */
  laterThinkingTokens?: number;
  answerTokens?: number;
  medianThinkingTokens: number;
  medianTotalTokens: number;
  /** Accuracy in percent divided by the mean total tokens in thousands. */
  accuracyPer1kTokens: number;
  correct: TokenMeans;
  incorrect: TokenMeans;
  /** Fraction of completions ended by the token limit, 0..1. */
  truncated: number;
  /** By level, in order of level name; empty if the data has no levels. */
  perLevel: Record<string, LevelSummary>;
}

/** The mean, or 0 for no values. */
const mean = (values: readonly number[]): number => (values.length === 0 ? 0 : meanOf(values));

/** The median, or 0 for no values. */
function median(values: readonly number[]): number {
  if (values.some(Number.isNaN)) return NaN;
  return values.length === 0 ? 0 : medianOf(values);
}

const accuracyOf = (rows: readonly Graded[]): number => mean(rows.map((row) => Number(row.verdict.correct)));

/** Means of the tokens outside the first thinking block, if every row has them. */
function outside(rows: readonly Graded[]): Outside {
  const meanOver = (name: keyof Outside) => mean(rows.map((row) => row[name] ?? NaN));
  const [laterThinkingTokens, answerTokens] = [meanOver('laterThinkingTokens'), meanOver('answerTokens')];
  return Number.isNaN(laterThinkingTokens + answerTokens) ? {} : { laterThinkingTokens, answerTokens };
}

/** 1 or 0, or NaN if unknown. */
export const truncation = ({ truncated }: Graded): number => (truncated === null ? NaN : Number(truncated));

/** @param accuracy fraction @param totalTokens mean per completion */
export const per1kTokens = (accuracy: number, totalTokens: number): number =>
  totalTokens === 0 ? 0 : (100 * accuracy) / (totalTokens / 1000);

const tokenMeans = (rows: readonly Graded[]): TokenMeans => ({
  n: rows.length,
  thinkingTokens: mean(rows.map((row) => row.thinkingTokens)),
  totalTokens: mean(rows.map((row) => row.totalTokens)),
});

/** The rows of each level, in order of level name; rows without a level are left out. */
export function byLevel<Row extends Graded>(rows: readonly Row[]): [level: string, rows: Row[]][] {
  const levels = [...new Set(rows.flatMap(({ level }) => (level === null ? [] : [level])))];
  levels.sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
  return levels.map((level) => [level, rows.filter((row) => row.level === level)]);
}

function levelSummary(rows: readonly Graded[]): LevelSummary {
  const { n, ...tokens } = tokenMeans(rows);
  return { accuracy: accuracyOf(rows), ...tokens, n };
}

export function summarise(rows: readonly Graded[]): EvalSummary {
  const { n, ...tokens } = tokenMeans(rows);
  const accuracy = accuracyOf(rows);
  return {
    n,
    accuracy,
    ...tokens,
    ...outside(rows),
    medianThinkingTokens: median(rows.map((row) => row.thinkingTokens)),
    medianTotalTokens: median(rows.map((row) => row.totalTokens)),
    accuracyPer1kTokens: per1kTokens(accuracy, tokens.totalTokens),
    correct: tokenMeans(rows.filter((row) => row.verdict.correct)),
    incorrect: tokenMeans(rows.filter((row) => !row.verdict.correct)),
    truncated: mean(rows.map(truncation)),
    perLevel: Object.fromEntries(byLevel(rows).map(([level, own]) => [level, levelSummary(own)])),
  };
}
