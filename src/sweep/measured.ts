/** The evaluations of a run as numbers: means, and what became of each problem. */
import { existsSync } from 'node:fs';
import { groupBy } from '../base/group-by';
import { mean } from '../base/statistics';
import type { StepMetrics } from '../base/types';
import { partNames } from '../data';
import { readAnswerNumbers, runTables, type AnswerNumbers, type EvaluationKind } from '../run';
import type { RunSummary } from '../train';
import type { SeedRows } from './statistics';

/** What became of one problem: means over its answers. */
export interface Answered {
  id: string;
  level: string | null;
  /** Fraction of its answers that are right: 0 or 1 if there is one. */
  accuracy: number;
  thinkingTokens: number;
  totalTokens: number;
}

/** What is compared between runs. */
export const QUANTITIES = ['accuracy', 'thinkingTokens', 'totalTokens'] as const;
export type Quantity = (typeof QUANTITIES)[number];

/** One evaluation on one benchmark. */
export interface Measured extends Record<Quantity, number> {
  /** Step of the run; 0: the base model. */
  step: number;
  /** Number of problems. */
  n: number;
  /** In the benchmark's order; null: the answers were not kept. */
  problems: Answered[] | null;
}

/** The answers to each problem, summed up. @param rows the answers, in any order */
export function answeredProblems(rows: readonly AnswerNumbers[]): Answered[] {
  const groups = [...groupBy(rows, ({ promptIndex }) => promptIndex)].sort(([a], [b]) => a - b);
  return groups.map(([, own]) => ({
    id: own[0].problemId,
    level: own[0].level,
    accuracy: mean(own.map(({ correct }) => Number(correct))),
    thinkingTokens: mean(own.map(({ thinkingTokens }) => thinkingTokens)),
    totalTokens: mean(own.map(({ totalTokens }) => totalTokens)),
  }));
}

export function measuredOf(step: number, problems: Answered[]): Measured {
  const over = (quantity: Quantity) => mean(problems.map((problem) => problem[quantity]));
  const means = { accuracy: over('accuracy'), thinkingTokens: over('thinkingTokens') };
  return { step, n: problems.length, ...means, totalTokens: over('totalTokens'), problems };
}

/** The evaluations of each benchmark in step order, from the base model on. */
export type Evaluations = Map<string, Measured[]>;

/** The problems of each part of joined data, whose ids begin with the part's name. */
function byPart(names: readonly string[], problems: readonly Answered[]): [string, Answered[]][] {
  if (names.length === 1) return [[names[0]!, [...problems]]];
  return names.flatMap((name): [string, Answered[]][] => {
    const prefix = `${name}/`;
    const own = problems.filter(({ id }) => id.startsWith(prefix));
    return own.length === 0 ? [] : [[name.split('@')[0]!, own]];
  });
}

/** Evaluations of which only means are known: from the summary, and from lines of metrics. */
function meansOnly(
  summary: RunSummary | null,
  lines: readonly StepMetrics[],
  kind: EvaluationKind,
): Measured[] {
  const [base, trained] = [summary?.base[kind] ?? null, summary?.trained[kind] ?? null];
  const n = base?.n ?? 0;
  const ofLines = lines.flatMap((line): Measured[] => {
    const accuracy = line[`eval/${kind}_accuracy`];
    if (accuracy === undefined) return [];
    const thinkingTokens = line[`eval/${kind}_thinking_tokens`] ?? NaN;
    const totalTokens = line[`eval/${kind}_total_tokens`] ?? NaN;
    return [{ step: line.step!, n, accuracy, thinkingTokens, totalTokens, problems: null }];
  });
  const ofSummary = ([step, own]: readonly [number, typeof base]): Measured[] => {
    if (own === null) return [];
    const { accuracy, thinkingTokens, totalTokens } = own;
    return [{ step, n: own.n, accuracy, thinkingTokens, totalTokens, problems: null }];
  };
  const end = ofSummary([summary?.run.steps ?? 0, trained]);
  return [...ofSummary([0, base]), ...ofLines.filter(({ step }) => step !== end[0]?.step), ...end];
}

/**
 * The evaluations of one kind in a run's folder, by benchmark. Where the answers were kept, joined data are taken
 * apart; means alone are those of all of them.
 * @param benchmark the run's evaluation data, by name
 * @throws BAD_INPUT naming a table that is damaged
 */
export async function evaluationsOf(
  path: string,
  benchmark: string,
  kind: EvaluationKind,
  { summary, lines }: { summary: RunSummary | null; lines: readonly StepMetrics[] },
): Promise<Evaluations> {
  const names = partNames(benchmark);
  const last = summary?.run.steps ?? lines.at(-1)?.step ?? 0;
  const found: Evaluations = new Map();
  const add = (name: string, one: Measured) => found.set(name, [...(found.get(name) ?? []), one]);
  // A rollback leaves the tables of steps that are yet to be repeated.
  const tables = existsSync(path)
    ? runTables(path).filter((one) => one.kind === kind && one.step <= last)
    : [];
  for (const table of tables) {
    const problems = answeredProblems(await readAnswerNumbers(table.path));
    for (const [name, own] of byPart(names, problems)) add(name, measuredOf(table.step, own));
  }
  const kept = new Set(tables.map(({ step }) => step));
  const whole = names.map((name) => name.split('@')[0]!).join(' + ');
  for (const one of meansOnly(summary, lines, kind)) {
    if (!kept.has(one.step)) add(whole, one);
  }
  for (const list of found.values()) list.sort((a, b) => a.step - b.step);
  return found;
}

/**
 * A quantity of the same problems in several evaluations, one row each; null: the answers of one were not kept, or
 * are to other problems.
 * @param level only problems of this level; null: all
 */
export function rowsOf(
  evaluations: readonly Measured[],
  quantity: Quantity,
  level: string | null = null,
): SeedRows | null {
  const wanted = evaluations[0]?.problems?.filter((one) => level === null || one.level === level) ?? [];
  if (wanted.length === 0) return null;
  const rows = evaluations.map(({ problems }) => {
    const byId = new Map(problems?.map((problem) => [problem.id, problem[quantity]]));
    return Float64Array.from(wanted, ({ id }) => byId.get(id) ?? NaN);
  });
  return rows.some((row) => row.some(Number.isNaN)) ? null : rows;
}
