/** The figures of one run. */
import type { Comparison } from '../eval';
import type { StoredCompletion } from '../run';
import { compareAnswers, kindName, withEnds, type BeforeAfter } from './evaluations';
import { lengthsSvg, levelAccuracySvg, levelTokensSvg } from './evaluation-figures';
import { shortNumber, type Cell, type Figure } from './figure';
import { FIGURE_GROUPS, type FigureGroup } from './figures';
import { marksOf } from './marks';
import type { RunData } from './run-data';
import { linesOf, timeFigureSvg, type StepValues } from './time-figure';

export interface DrawnGroup {
  title: string;
  figures: Figure[];
}

export function stepValues(run: RunData, evaluations: readonly BeforeAfter[]): StepValues {
  const n = (kind: BeforeAfter['kind']) => evaluations.find((one) => one.kind === kind)?.trained.n;
  return {
    lines: withEnds(run.lines, evaluations),
    discarded: run.discarded,
    evaluated: { greedy: n('greedy'), sampled: n('sampled') },
  };
}

async function timeFigures(group: FigureGroup, run: RunData, values: StepValues): Promise<Figure[]> {
  const marks = marksOf(run.lines, run.rollbacks);
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
export async function dynamicsOf(run: RunData, values: StepValues): Promise<DrawnGroup[]> {
  const groups: DrawnGroup[] = [];
  for (const group of FIGURE_GROUPS) {
    const figures = await timeFigures(group, run, values);
    if (figures.length > 0) groups.push({ title: group.title, figures });
  }
  return groups;
}

function levelTable({ base, trained }: BeforeAfter): Figure['table'] {
  const columns = ['level', 'n', 'accuracy_before', 'accuracy_after', 'tokens_before', 'tokens_after'];
  const rows = Object.keys(base.perLevel)
    .filter((level) => trained.perLevel[level] !== undefined)
    .map((level): Cell[] => {
      const [a, b] = [base.perLevel[level]!, trained.perLevel[level]!];
      return [level, b.n, a.accuracy, b.accuracy, a.totalTokens, b.totalTokens].map((cell) =>
        typeof cell === 'number' ? shortNumber(cell) : cell,
      );
    });
  return { columns, rows };
}

async function lengthFigures({ kind, answers }: BeforeAfter): Promise<Figure[]> {
  if (answers === null) return [];
  const parts: [string, string, (row: StoredCompletion) => number][] = [
    ['thinking', 'tokens in the thinking block', (row) => row.thinkingTokens],
    ['total', 'tokens of the completion', (row) => row.totalTokens],
  ];
  return Promise.all(
    parts.map(async ([name, axis, of]): Promise<Figure> => {
      const [before, after] = [answers.base.map(of), answers.trained.map(of)];
      return {
        id: `lengths-${name}-${kind}`,
        title: name === 'thinking' ? 'Thinking lengths' : 'Completion lengths',
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
    figures.push(
      {
        id: `level-accuracy-${kind}`,
        title: 'Accuracy by level',
        svg: await levelAccuracySvg(base, trained),
        table,
        caption,
      },
      {
        id: `level-tokens-${kind}`,
        title: 'Tokens by level',
        svg: await levelTokensSvg(base, trained),
        table,
        caption,
      },
    );
  }
  return [...figures, ...(await lengthFigures(evaluation))];
}

export const comparisonOf = ({ answers }: BeforeAfter): Comparison | null =>
  compareAnswers(answers?.base, answers?.trained);
