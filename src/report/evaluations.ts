/** A run's evaluations: the answers that it kept, and the figures of each kind of decoding before and after. */
import {
  accuracyChange,
  compare,
  summarise,
  wilsonInterval,
  type AccuracyChange,
  type Comparison,
  type EvalRow,
  type EvalSummary,
} from '../eval';
import { readCompletions, runTables, type EvaluationKind, type StoredCompletion } from '../run';
import type { StepMetrics } from '../base/types';
import type { RunData } from './run-data';

export const KINDS: readonly EvaluationKind[] = ['sampled', 'greedy'];

export const kindName = (kind: EvaluationKind): string =>
  kind === 'greedy' ? 'greedy' : 'sampled at temperature 1';

/** Answers to the same problems before training and after the last evaluated step. */
export interface BeforeAfter {
  kind: EvaluationKind;
  /** Step of the later evaluation. */
  step: number;
  base: EvalSummary;
  trained: EvalSummary;
  change: AccuracyChange;
  /** null: the answers were not kept. */
  answers: { base: StoredCompletion[]; trained: StoredCompletion[] } | null;
}

export const evalRow = (row: StoredCompletion): EvalRow => ({
  ...row,
  index: row.promptIndex,
  verdict: { correct: row.correct, status: row.status, extracted: row.extracted },
  truncated: row.finish === 'length',
});

async function keptAnswers(run: RunData, kind: EvaluationKind): Promise<[number, StoredCompletion[]][]> {
  const last = run.lines.at(-1)?.step ?? 0;
  // A rollback leaves the evaluations of steps that are yet to be repeated.
  const found = runTables(run.directory.path).filter((one) => one.kind === kind && one.step <= last);
  const [first, end] = [found.at(0), found.at(-1)];
  if (first === undefined || end === undefined || first.step !== 0 || end === first) return [];
  return [
    [first.step, await readCompletions(first.path)],
    [end.step, await readCompletions(end.path)],
  ];
}

const solvedOf = (summary: EvalSummary & { solved?: string }): boolean[] | null =>
  summary.solved === undefined ? null : Array.from(summary.solved, (mark) => mark === '1');

/** null: the run did not evaluate this, or not twice yet. */
async function beforeAfter(run: RunData, kind: EvaluationKind): Promise<BeforeAfter | null> {
  const [first, end] = await keptAnswers(run, kind);
  const answers = first !== undefined && end !== undefined ? { base: first[1], trained: end[1] } : null;
  if (run.summary === null) {
    if (answers === null || end === undefined) return null;
    const [base, trained] = [summarise(answers.base.map(evalRow)), summarise(answers.trained.map(evalRow))];
    const solved = (rows: readonly StoredCompletion[]) => rows.map(({ correct }) => correct);
    const change = accuracyChange(
      { ...base, solved: solved(answers.base) },
      { ...trained, solved: solved(answers.trained) },
    );
    return { kind, step: end[0], base, trained, change, answers };
  }
  const [base, trained] = [run.summary.base[kind], run.summary.trained[kind]];
  if (base === null || trained === null) return null;
  const change = accuracyChange(
    { ...base, solved: solvedOf(base) },
    { ...trained, solved: solvedOf(trained) },
  );
  return { kind, step: run.summary.run.steps, base, trained, change, answers };
}

export async function evaluationsOf(run: RunData): Promise<BeforeAfter[]> {
  const all = await Promise.all(KINDS.map((kind) => beforeAfter(run, kind)));
  return all.filter((one) => one !== null);
}

/** Lengths and accuracy of `b` against `a` on the problems of both; null if the answers were not kept. */
export function compareAnswers(
  a: readonly StoredCompletion[] | undefined,
  b: readonly StoredCompletion[] | undefined,
): Comparison | null {
  if (a === undefined || b === undefined) return null;
  return compare(a.map(evalRow), b.map(evalRow), { resamples: 2000 });
}

/** Accuracy with its 95% interval. */
export const accuracyInterval = ({ accuracy, n }: Pick<EvalSummary, 'accuracy' | 'n'>) =>
  wilsonInterval(Math.round(accuracy * n), n);

/** The evaluations before and after as lines of metrics, which contain only those made between steps. */
export function withEnds(lines: readonly StepMetrics[], evaluations: readonly BeforeAfter[]): StepMetrics[] {
  const byStep = new Map(lines.map((line) => [line.step!, line]));
  for (const { kind, step, base, trained } of evaluations) {
    for (const [at, summary] of [
      [0, base],
      [step, trained],
    ] as const) {
      byStep.set(at, {
        ...(byStep.get(at) ?? { step: at }),
        [`eval/${kind}_accuracy`]: summary.accuracy,
        [`eval/${kind}_thinking_tokens`]: summary.thinkingTokens,
        [`eval/${kind}_total_tokens`]: summary.totalTokens,
      });
    }
  }
  return [...byStep.values()].sort((a, b) => a.step! - b.step!);
}
