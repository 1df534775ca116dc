/** The sections of a report that compares runs: the paper's figures and its table of main results. */
import { isDeepStrictEqual } from 'node:util';
import type { EvaluationKind } from '../run';
import { withPublishedNames } from '../train';
import { accuracyTest, comparedOrNull, evaluationOf } from './answer';
import { accuracyInterval, kindName, KINDS, type BeforeAfter } from './evaluations';
import { PARETO_VALUES, paretoSvg, type ParetoPoint } from './evaluation-figures';
import { figuresHtml, shortNumber, type Cell, type Figure } from './figure';
import { FIGURE_GROUPS, type FigureGroup, type TimeFigure } from './figures';
import { markup, type Html } from './html';
import { answersSection, rewardName, verdictOf, type RunReport, type Section } from './single';
import {
  accuracyCell,
  changeCell,
  configurationHtml,
  numberTable,
  pCell,
  pointsCell,
  tokens,
} from './tables';
import { pointsOf, smoothPoints, thinned, timeFigureSvg, type DrawnLine, type Point } from './time-figure';
import { maximum, mean, minimum } from '../base/statistics';

/** Runs that differ in nothing but their seed. */
export interface Method {
  label: string;
  /** Index of its colour. */
  index: number;
  reports: RunReport[];
}

/** Settings that say where and how a run is made, not what is learnt. */
const CIRCUMSTANCES = new Set([
  'seed',
  'device',
  'threads',
  'sinks',
  'notify',
  'sinkTimeoutMs',
  'saveSteps',
  'keepCheckpoints',
  'name',
]);

type Settings = Record<string, unknown>;

const learntFrom = ({ run }: RunReport): Settings =>
  Object.fromEntries(Object.entries(run.config ?? {}).filter(([key]) => !CIRCUMSTANCES.has(key)));

const rewardOf = ([first]: readonly RunReport[]): string =>
  first!.run.config === null ? 'unknown reward' : rewardName(first!.run.config);

/** What tells this method from others with the same reward: the first settings that differ. */
function difference(own: Settings, others: readonly Settings[]): string {
  const names = Object.keys(own).filter((key) =>
    others.some((other) => !isDeepStrictEqual(other[key], own[key])),
  );
  return names
    .slice(0, 2)
    .map((name) => `${name} ${JSON.stringify(own[name])}`)
    .join(', ');
}

export function methodsOf(reports: readonly RunReport[]): Method[] {
  const methods: { settings: Settings; reports: RunReport[] }[] = [];
  for (const report of reports) {
    const settings = learntFrom(report);
    const same = methods.find(
      (method) => report.run.config !== null && isDeepStrictEqual(method.settings, settings),
    );
    if (same === undefined) methods.push({ settings, reports: [report] });
    else same.reports.push(report);
  }
  return methods.map(({ settings, reports: own }, index): Method => {
    const reward = rewardOf(own);
    const others = methods.filter((method) => method.reports !== own && rewardOf(method.reports) === reward);
    const more = difference(
      settings,
      others.map((method) => method.settings),
    );
    return { label: more === '' ? reward : `${reward} (${more})`, index, reports: own };
  });
}

/** The name of a run in tables and figures of its method: with its seed if there are several. */
const seedName = ({ label, reports }: Method, { run }: RunReport): string =>
  reports.length > 1 ? `${label}, seed ${run.config?.seed ?? '?'}` : label;

/** Mean, least and most over the runs that have a value at a step. */
function bandOf(runs: readonly (readonly Point[])[]): Point[] {
  const at = new Map<number, number[]>();
  for (const { step, value } of runs.flat()) at.set(step, [...(at.get(step) ?? []), value]);
  return [...at.entries()]
    .filter(([, values]) => values.length === runs.length)
    .sort(([a], [b]) => a - b)
    .map(([step, values]) => ({
      step,
      value: mean(values),
      low: minimum(values),
      high: maximum(values),
    }));
}

function methodLine(
  { label, index, reports }: Method,
  figure: TimeFigure,
  metric: string,
  most?: number,
): DrawnLine | null {
  const as = figure.lines.find((line) => line.metric === metric)!.as;
  const runs = reports
    .map(({ values }) => pointsOf(values.lines, metric))
    .filter((points) => points.length > 0)
    .map((points) => (figure.smooth === true && as === 'line' ? smoothPoints(points) : points));
  if (runs.length === 0) return null;
  const band = bandOf(runs);
  const name = runs.length > 1 ? `${label} (${runs.length} seeds)` : label;
  const points = thinned(band, most).map(({ step, value }) => ({ step, value }));
  return { label: name, index, as, points, band: runs.length > 1 ? thinned(band, most) : undefined };
}

/** The metrics of a group of figures, all methods overlaid; seeds as a band around their mean. */
async function overlaid(group: FigureGroup, methods: readonly Method[], most?: number): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const figure of group.figures) {
    for (const { metric, label } of figure.lines) {
      const lines = methods
        .map((method) => methodLine(method, figure, metric, most))
        .filter((line) => line !== null);
      const flat = lines.every(({ points }) => points.every(({ value }) => value === points[0]!.value));
      if (lines.length === 0 || flat) continue;
      const title = figure.lines.length === 1 ? figure.title : `${figure.title}: ${label}`;
      const id = `overlaid-${metric.replaceAll(/[^a-z0-9]+/g, '-')}`;
      const svg = await timeFigureSvg({ ...figure, title, stacked: false }, lines, []);
      const rows = lines.flatMap((line) =>
        (line.band ?? line.points).map(({ step, value, low, high }): Cell[] => [
          line.label,
          step,
          ...[value, low ?? value, high ?? value].map(shortNumber),
        ]),
      );
      figures.push({ id, title, svg, table: { columns: ['method', 'step', metric, 'least', 'most'], rows } });
    }
  }
  return figures;
}

/**
 * The training dynamics of methods: every figure of one run, all methods overlaid, in the groups of a run's report.
 * @param most points of a line; default: as many as a figure has pixels for
 */
export const dynamicsFigures = (methods: readonly Method[], most?: number) =>
  Promise.all(
    FIGURE_GROUPS.map(async (group) => ({
      title: group.title,
      figures: await overlaid(group, methods, most),
    })),
  );

/** The figures in their groups; the first group is open. */
export const dynamicsHtml = (groups: Awaited<ReturnType<typeof dynamicsFigures>>): Html =>
  markup`<p class="muted">
      Runs that differ in nothing but their seed are one line with a band from the least to the most.
    </p>
    ${groups
      .filter(({ figures }) => figures.length > 0)
      .map(
        (
          { title, figures },
          i,
        ) => markup`<details${i === 0 ? markup` open` : null}><summary>${title}</summary>
${figuresHtml(figures)}</details>`,
      )}`;

/** Half of the 95% interval of the mean tokens; 0: the answers were not kept. */
function tokensHalf(evaluation: BeforeAfter, side: 'base' | 'trained'): number {
  const mean = evaluation[side].totalTokens;
  const lengths = evaluation.answers?.[side].map(({ totalTokens }) => totalTokens) ?? [];
  if (lengths.length < 2) return 0;
  const variance = lengths.reduce((sum, length) => sum + (length - mean) ** 2, 0) / (lengths.length - 1);
  return 1.96 * Math.sqrt(variance / lengths.length);
}

function paretoPoint(
  label: string,
  index: number | null,
  evaluation: BeforeAfter,
  side: 'base' | 'trained',
): ParetoPoint {
  const { accuracy, totalTokens } = evaluation[side];
  const { low, high } = accuracyInterval(evaluation[side]);
  const half = tokensHalf(evaluation, side);
  const lengths = { tokens: totalTokens, tokensLow: totalTokens - half, tokensHigh: totalTokens + half };
  return { label, index, accuracy, accuracyLow: low, accuracyHigh: high, ...lengths };
}

const firstEvaluation = (methods: readonly Method[], kind: EvaluationKind): BeforeAfter | undefined =>
  methods.flatMap(({ reports }) => reports.flatMap((report) => evaluationOf(report, kind) ?? []))[0];

async function paretoFigure(methods: readonly Method[], kind: EvaluationKind): Promise<Figure | null> {
  const points = methods.flatMap((method) =>
    method.reports.flatMap((report) => {
      const evaluation = evaluationOf(report, kind);
      if (evaluation === undefined) return [];
      return [paretoPoint(seedName(method, report), method.index, evaluation, 'trained')];
    }),
  );
  const first = firstEvaluation(methods, kind);
  if (first === undefined) return null;
  const all = [paretoPoint('base', null, first, 'base'), ...points];
  const columns = [
    'model',
    ...PARETO_VALUES.map((name) => name.replace(/[A-Z]/, (c) => `_${c.toLowerCase()}`)),
  ];
  const rows = all.map((point): Cell[] => [
    point.label,
    ...PARETO_VALUES.map((name) => shortNumber(point[name])),
  ]);
  return {
    id: `pareto-${kind}`,
    title: `Accuracy against tokens, ${kindName(kind)}`,
    svg: await paretoSvg(all),
    table: { columns, rows },
    caption: 'Bars are 95% intervals; no model beats one on the dashed line in both.',
    wide: true,
  };
}

/** The table of main results in the paper's shape: accuracy and tokens, with the change from the base model. */
function mainResults(methods: readonly Method[]): Html {
  const kinds = KINDS.filter((kind) => firstEvaluation(methods, kind) !== undefined);
  const cells = (evaluation: BeforeAfter | undefined, side: 'base' | 'trained'): (string | Html)[] => {
    if (evaluation === undefined) return ['–', '–', '–'];
    const own = evaluation[side];
    const change =
      side === 'trained' ? markup` (${changeCell(evaluation.base.totalTokens, own.totalTokens)})` : null;
    return [accuracyCell(own), tokens(own.thinkingTokens), markup`${tokens(own.totalTokens)}${change}`];
  };
  const rows = methods.flatMap((method) =>
    method.reports.map((report) => [
      seedName(method, report),
      ...kinds.flatMap((kind) => cells(evaluationOf(report, kind), 'trained')),
      verdictOf(report).split(':')[0]!.replace(/\.$/, ''),
    ]),
  );
  return numberTable(
    'Main results: accuracy with its 95% interval, mean tokens of thinking and of a completion with the change from the base model',
    ['model', ...kinds.flatMap((kind) => [`accuracy, ${kindName(kind)}`, 'thinking', 'tokens']), 'outcome'],
    [['base', ...kinds.flatMap((kind) => cells(firstEvaluation(methods, kind), 'base')), ''], ...rows],
  );
}

/** Every pair of runs on the problems that both answered. */
function differences(reports: readonly RunReport[], kind: EvaluationKind): Html | null {
  const rows = reports.flatMap((a, i) =>
    reports.slice(i + 1).flatMap((b) => {
      const compared = comparedOrNull(a, b, kind);
      if (compared === null) return [];
      const { totalTokens, pairs } = compared;
      const { difference, interval, p } = accuracyTest(compared);
      return [
        [
          `${b.run.name} against ${a.run.name}`,
          String(pairs),
          pointsCell(difference, interval),
          pCell(p),
          pointsCell(totalTokens.change, totalTokens.changeInterval),
          pCell(totalTokens.p),
        ],
      ];
    }),
  );
  if (rows.length === 0) return null;
  return numberTable(
    `Differences, ${kindName(kind)}: accuracy by the exact McNemar test and its interval, tokens by the paired bootstrap`,
    ['runs', 'problems', 'accuracy, points', 'p', 'tokens, %', 'p'],
    rows,
  );
}

async function runSection(report: RunReport, index: number): Promise<Section> {
  const { name, config, configProblem } = report.run;
  return {
    id: `run-${index + 1}`,
    title: name,
    content: markup`<p>${verdictOf(report)}</p>
      ${await answersSection(report)}
      ${config === null ? markup`<p>${configProblem}</p>` : configurationHtml(withPublishedNames(config))}`,
  };
}

export async function comparison(
  reports: readonly RunReport[],
): Promise<{ sections: Section[]; figures: Figure[] }> {
  const methods = methodsOf(reports);
  const pareto = (await Promise.all(KINDS.map((kind) => paretoFigure(methods, kind)))).filter(
    (figure) => figure !== null,
  );
  const dynamics = await dynamicsFigures(methods);
  const tests = KINDS.map((kind) => differences(reports, kind)).filter((table) => table !== null);
  const sections: Section[] = [
    {
      id: 'results',
      title: 'Main results',
      content: markup`${mainResults(methods)} ${figuresHtml(pareto)} ${tests}`,
    },
    {
      id: 'dynamics',
      title: 'Training dynamics',
      content: dynamicsHtml(dynamics),
    },
    ...(await Promise.all(reports.map(runSection))),
  ];
  return { sections, figures: [...pareto, ...dynamics.flatMap(({ figures }) => figures)] };
}
