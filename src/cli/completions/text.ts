/** Selected completions as text. */
import { groupBy } from '../../base/group-by';
import { mean } from '../../base/statistics';
import { grouped, percent } from '../../base/text';
import { questionOf } from '../../base/transcript';
import type { RunTable, StoredCompletion, TableKind } from '../../run';
import { printableLine } from '../../base/printable';
import { alignTable } from '../table';
import {
  completionLines,
  problemLines,
  shownStored,
  type CompletionStyle,
  type ShownProblem,
} from '../view/completion';
import { KEEP_QUESTION } from '../view/cut';
import { change, count } from '../view/format';
import { oneOf, oneOfEach, type Selection } from './select';

export interface ShowStyle extends CompletionStyle {
  run: string;
  /** The run's promptTemplate. */
  template: string;
  /** Problems to print of a table, or tables to print of a problem. */
  most: number;
}

/** `step 100, training`, `base model, greedy`. */
const madeAt = ({ step, kind }: RunTable): string => `${step === 0 ? 'base model' : `step ${step}`}, ${kind}`;

const thinkingOf = (rows: readonly StoredCompletion[]) =>
  mean(rows.map(({ thinkingTokens }) => thinkingTokens));
const correctOf = (rows: readonly StoredCompletion[]) => rows.filter(({ correct }) => correct).length;

function problemOf(row: StoredCompletion, template: string): ShownProblem {
  const { problemId: id, level, gold, prompt } = row;
  return { id, level, gold, question: questionOf(prompt, template) };
}

const problemText = (row: StoredCompletion, { template, width, thinking }: ShowStyle): string[] =>
  problemLines(problemOf(row, template), width, thinking === null ? null : KEEP_QUESTION);

const byProblem = (rows: readonly StoredCompletion[]) => [
  ...groupBy(rows, ({ promptIndex, problemId }) => `${promptIndex} ${problemId}`).values(),
];

function tableHeading({ table, rows }: Selection, problems: number, { run, colors }: ShowStyle): string {
  const figures = [
    count(problems, 'problem'),
    count(rows.length, 'completion'),
    ...(rows.length === 0
      ? []
      : [
          `${percent(correctOf(rows) / rows.length)} correct`,
          `${thinkingOf(rows).toFixed(1)} thinking tokens on average`,
        ]),
  ];
  return `${colors.bold(`${madeAt(table)}, of ${printableLine(run)}`)}: ${figures.join(', ')}`;
}

/** One table: each problem with one completion of each verdict. */
export function tableLines(selection: Selection, style: ShowStyle): string[] {
  const problems = byProblem(selection.rows);
  const shown = problems.slice(0, style.most);
  const left = problems.length - shown.length;
  return [
    tableHeading(selection, problems.length, style),
    ...shown.flatMap((rows) => [
      '',
      ...problemText(rows[0], style),
      ...oneOfEach(rows).flatMap((row) => ['', ...completionLines(shownStored(row), style)]),
    ]),
    ...(left > 0 ? ['', `${grouped(left)} more; -n ${problems.length} prints all`] : []),
  ];
}

/** The thinking before and after, of answers that were sampled in the same way. */
function shortened(kind: TableKind, selections: readonly Selection[]): string[] {
  const alike = selections.filter(({ table }) => table.kind === kind);
  if (alike.length < 2) return [];
  const [first, last] = [thinkingOf(alike[0]!.rows), thinkingOf(alike.at(-1)!.rows)];
  return [
    `${kind}: thinking ${first.toFixed(1)} -> ${last.toFixed(1)} tokens  ${change(first, last)}`.trimEnd(),
  ];
}

/** What became of the answers to one problem, as a table. */
function courseLines(selections: readonly Selection[]): string[] {
  const rows = selections.map(({ table, rows: found }) => [
    madeAt(table),
    `${correctOf(found)} of ${found.length}`,
    thinkingOf(found).toFixed(1),
  ]);
  return [
    ...alignTable([['', 'correct', 'thinking'], ...rows]),
    ...(['training', 'greedy', 'sampled'] as const).flatMap((kind) => shortened(kind, selections)),
  ];
}

/** One problem over all tables that have it, oldest first; all of its completions if only one step is asked for. */
export function problemCourseLines(
  selections: readonly Selection[],
  style: ShowStyle,
  oneStep: boolean,
): string[] {
  const found = selections.filter(({ rows }) => rows.length > 0);
  if (found.length === 0) return ['no completion matches'];
  const shown = found.slice(-style.most);
  const choose = oneStep ? (rows: readonly StoredCompletion[]) => rows : oneOf;
  return [
    ...problemText(found[0]!.rows[0]!, style),
    ...(found.length > 1 ? ['', ...courseLines(found).map((line) => `  ${line}`)] : []),
    ...shown.flatMap((selection) => [
      '',
      style.colors.bold(`${madeAt(selection.table)}:`),
      ...choose(selection.rows).flatMap((row) => completionLines(shownStored(row), style)),
    ]),
  ];
}
