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

const evalRow = (row: StoredCompletion): EvalRow => ({
  ...row,
  index: row.promptIndex,
  verdict: { correct: row.correct, status: row.status, extracted: row.extracted },
  truncated: row.finish === 'length',
});

type Answers = NonNullable<BeforeAfter['answers']>;

async function keptAnswers(
  run: RunData,
  kind: EvaluationKind,
): Promise<{ step: number; answers: Answers } | null> {
  const last = run.lines.at(-1)?.step ?? 0;
  // A rollback leaves the evaluations of steps that are yet to be repeated.
  const found = runTables(run.directory.path).filter((one) => one.kind === kind && one.step <= last);
  const [first, end] = [found.at(0), found.at(-1)];
  if (first === undefined || end === undefined || first.step !== 0 || end === first) return null;
  const answers = { base: await readCompletions(first.path), trained: await readCompletions(end.path) };
  return { step: end.step, answers };
}

type Solved = EvalSummary & { solved: boolean[] | null };

const recorded = (summary: EvalSummary & { solved?: string }): Solved => {
  const { solved } = summary;
  return { ...summary, solved: solved === undefined ? null : Array.from(solved, (mark) => mark === '1') };
};

const summarised = (rows: readonly StoredCompletion[]): Solved => {
  return { ...summarise(rows.map(evalRow)), solved: rows.map(({ correct }) => correct) };
};

/** null: the run did not evaluate this, or not twice yet. */
async function beforeAfter(
  run: RunData,
  kind: EvaluationKind,
  withAnswers: boolean,
): Promise<BeforeAfter | null> {
  const kept = withAnswers ? await keptAnswers(run, kind) : null;
  const answers = kept?.answers ?? null;
  let sides: [Solved, Solved] | null = null;
  if (run.summary === null) {
    if (answers !== null) sides = [summarised(answers.base), summarised(answers.trained)];
  } else {
    const [base, trained] = [run.summary.base[kind], run.summary.trained[kind]];
    if (base !== null && trained !== null) sides = [recorded(base), recorded(trained)];
  }
  if (sides === null) return null;
  const [base, trained] = sides;
  const step = run.summary?.run.steps ?? kept!.step;
  return { kind, step, base, trained, change: accuracyChange(base, trained), answers };
}

/** @param withAnswers whether to read the answers, whose texts take most of the memory of a report */
export async function evaluationsOf(run: RunData, withAnswers = true): Promise<BeforeAfter[]> {
  const all = await Promise.all(KINDS.map((kind) => beforeAfter(run, kind, withAnswers)));
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
