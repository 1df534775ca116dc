/** The figures of one run. */
import type { EvaluationKind, StoredCompletion } from '../run';
import { kindName, withEnds, type BeforeAfter } from './evaluations';
import { lengthsSvg, levelAccuracySvg, levelTokensSvg } from './evaluation-figures';
import { shortNumber, type Cell, type Figure } from './figure';
import { FIGURE_GROUPS, type FigureGroup } from './figures';
import { marksOf } from './marks';
import type { RunData } from './run-data';
import type { Mark } from './shown';
import { levelsOf } from './tables';
import { linesOf, timeFigureSvg, type StepValues } from './time-figure';

export function stepValues(run: RunData, evaluations: readonly BeforeAfter[]): StepValues {
  const n = (kind: EvaluationKind) => evaluations.find((one) => one.kind === kind)?.trained.n;
  return {
    lines: withEnds(run.lines, evaluations),
    discarded: run.discarded,
    evaluated: { greedy: n('greedy'), sampled: n('sampled') },
  };
}

async function timeFigures(
  group: FigureGroup,
  marks: readonly Mark[],
  values: StepValues,
): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const figure of group.figures) {
    const lines = linesOf(figure, values);
    if (lines.length === 0) continue;
    const metrics = figure.lines.map(({ metric }) => metric);
    const rows = values.lines
      .filter((line) => metrics.some((metric) => line[metric] !== undefined))
      .map((line): Cell[] => [
        line.step!,
        ...metrics.map((metric) => (line[metric] === undefined ? null : shortNumber(line[metric]))),
      ]);
    const svg = await timeFigureSvg(figure, lines, marks);
    figures.push({ id: figure.id, title: figure.title, svg, table: { columns: ['step', ...metrics], rows } });
  }
  return figures;
}

/** The figures over the run's steps, in groups; a group without values is left out. */
export async function dynamicsOf(run: RunData, values: StepValues) {
  const marks = marksOf(run.lines, run.rollbacks);
  const groups = FIGURE_GROUPS.map(async (group) => {
    return { title: group.title, figures: await timeFigures(group, marks, values) };
  });
  return (await Promise.all(groups)).filter(({ figures }) => figures.length > 0);
}

function levelTable({ base, trained }: BeforeAfter): Figure['table'] {
  const columns = ['level', 'n', 'accuracy_before', 'accuracy_after', 'tokens_before', 'tokens_after'];
  const rows = levelsOf(base, trained).map(([level, a, b]): Cell[] => [
    level,
    ...[b.n, a.accuracy, b.accuracy, a.totalTokens, b.totalTokens].map(shortNumber),
  ]);
  return { columns, rows };
}

async function lengthFigures({ kind, answers }: BeforeAfter): Promise<Figure[]> {
  if (answers === null) return [];
  const parts = [
    ['thinking', 'Thinking lengths', 'tokens in the thinking block'],
    ['total', 'Completion lengths', 'tokens of the completion'],
  ] as const;
  return Promise.all(
    parts.map(async ([name, title, axis]): Promise<Figure> => {
      const of = (row: StoredCompletion) => row[`${name}Tokens`];
      const [before, after] = [answers.base.map(of), answers.trained.map(of)];
      return {
        id: `lengths-${name}-${kind}`,
        title,
        svg: await lengthsSvg(before, after, axis),
        caption: 'Grey before, coloured after. The longest hundredth is in the last bar.',
        table: {
          columns: ['problem', 'before', 'after'],
          rows: answers.base.map((row, i) => [row.problemId, before[i]!, after[i] ?? null]),
        },
      };
    }),
  );
}

/** Bars by level and histograms of lengths, before and after. */
export async function evaluationFigures(evaluation: BeforeAfter): Promise<Figure[]> {
  const { kind, base, trained } = evaluation;
  const figures: Figure[] = [];
  if (Object.keys(base.perLevel).length > 0) {
    const table = levelTable(evaluation);
    const caption = `Grey before, coloured after; ${kindName(kind)}.`;
    const figure = (name: string, title: string, svg: string): Figure => {
      return { id: `level-${name}-${kind}`, title, svg, table, caption };
    };
    figures.push(
      figure('accuracy', 'Accuracy by level', await levelAccuracySvg(base, trained)),
      figure('tokens', 'Tokens by level', await levelTokensSvg(base, trained)),
    );
  }
  return [...figures, ...(await lengthFigures(evaluation))];
}
