/** The report of a sweep as a page: what it shows of the paper's claims, tables, figures, and the states of its runs. */
import {
  dynamicsFigures,
  dynamicsHtml,
  figuresHtml,
  markup,
  numberTable,
  pageHtml,
  PARETO_VALUES,
  paretoSvg,
  reportOf,
  shortNumber,
  type Figure,
  type Html,
  type Method as DrawnMethod,
  type ParetoPoint,
  type Section,
} from '../report';
import { listed } from '../base/text';
import { baseCell, benchmarkTitle, meanCell } from './cells';
import { claimsText } from './claims';
import { endOf, type Method, type SweepResults } from './results';
import { numberText, rangeText, type Cell, type Table, type Value } from './table';
import type { Measured } from './measured';
import { basesOf } from './tables';
import type { SweepTables } from './tables-files';

/** Points of a line: a page with eleven methods is to stay a few megabytes. */
const MOST_POINTS = 100;

const cellHtml = (cell: Cell): Html =>
  markup`${cell.map((part) => {
    if (typeof part === 'string') return markup`${part}`;
    const range = rangeText(part);
    const small = range === '' ? null : markup` <span class="muted range">${range}</span>`;
    return markup`${numberText(part.value, part.unit)}${small}`;
  })}`;

function tableHtml({ title, columns, blocks, notes }: Table): Html {
  const names = columns.map(({ name, group }) => (group === undefined ? name : `${group}: ${name}`));
  const rows = blocks.flat().map((row) => row.map(cellHtml));
  return markup`${numberTable(title, names, rows)}
    ${notes.map((note) => markup`<p class="muted">${note}</p>`)}`;
}

/** Tables by their ids, in that order; `trajectories` has several parts. */
const tablesHtml = (tables: readonly Table[], ...ids: readonly string[]): Html =>
  markup`${ids.flatMap((one) =>
    tables.filter(({ id }) => id === one || id.startsWith(`${one}-`)).map(tableHtml),
  )}`;

/** A dot with the means of evaluations and their intervals. */
function meanPoint(
  label: string,
  index: number | null,
  measured: readonly Measured[],
  of: typeof meanCell,
): ParetoPoint {
  const value = (quantity: 'accuracy' | 'totalTokens'): Partial<Value> & { value: number } => {
    const [part] = of(measured, quantity);
    return typeof part === 'string' || part === undefined ? { value: NaN } : part;
  };
  const [accuracy, tokens] = [value('accuracy'), value('totalTokens')];
  return {
    label,
    index,
    accuracy: accuracy.value,
    accuracyLow: accuracy.low ?? accuracy.value,
    accuracyHigh: accuracy.high ?? accuracy.value,
    tokens: tokens.value,
    tokensLow: tokens.low ?? tokens.value,
    tokensHigh: tokens.high ?? tokens.value,
  };
}

function methodPoints({ name, index, runs }: Method, benchmark: string): ParetoPoint[] {
  const found = runs.flatMap((run) => {
    const end = endOf(run, benchmark);
    return end === null ? [] : [{ seed: run.run.seed, end }];
  });
  if (found.length === 0) return [];
  const mean = meanPoint(
    name,
    index,
    found.map(({ end }) => end),
    meanCell,
  );
  if (found.length === 1) return [mean];
  const seeds = found.map(({ seed, end: { accuracy, totalTokens } }): ParetoPoint => {
    const at = {
      accuracyLow: accuracy,
      accuracyHigh: accuracy,
      tokensLow: totalTokens,
      tokensHigh: totalTokens,
    };
    return {
      ...at,
      label: `${name}, seed ${seed}`,
      index,
      accuracy,
      tokens: totalTokens,
      small: true,
    };
  });
  return [...seeds, mean];
}

/** Accuracy against tokens on a benchmark: a method's mean with its interval, and each of its seeds as a small dot. */
async function paretoFigure({ methods }: SweepResults, benchmark: string): Promise<Figure | null> {
  const points = methods.flatMap((method) => methodPoints(method, benchmark));
  if (points.length === 0) return null;
  const bases = basesOf(methods, benchmark);
  const all = bases.length === 0 ? points : [meanPoint('base', null, bases, baseCell), ...points];
  const id = `pareto-${benchmark.replaceAll(/[^\w]+/g, '-')}`;
  const columns = [
    'model',
    ...PARETO_VALUES.map((name) => name.replace(/[A-Z]/, (letter) => `_${letter.toLowerCase()}`)),
  ];
  const rows = all.map((point) => [point.label, ...PARETO_VALUES.map((name) => shortNumber(point[name]))]);
  return {
    id,
    title: `Accuracy against tokens on ${benchmarkTitle(benchmark)}`,
    svg: await paretoSvg(all),
    table: { columns, rows },
    caption:
      'Small dots are seeds, large ones means; bars are 95% intervals where there are enough seeds. No mean beats one on the dashed line in both.',
    wide: true,
  };
}

async function drawnMethods(methods: readonly Method[]): Promise<DrawnMethod[]> {
  const drawn: DrawnMethod[] = [];
  for (const { name, index, runs } of methods) {
    const reports = [];
    for (const { data } of runs) if (data !== null) reports.push(await reportOf(data, false));
    if (reports.length > 0) drawn.push({ label: name, index, reports });
  }
  return drawn;
}

/** Counts of states, and the sentences of what failed. */
function statesHtml({ sweep, notes }: SweepResults): Html {
  const failed = sweep.runs.filter(({ state }) => state === 'failed' || state === 'skipped');
  const items = [
    ...failed.map(
      ({ folder, state, message }) => `${folder} ${state}${message === null ? '' : `: ${message}`}`,
    ),
    ...notes,
  ];
  return items.length === 0
    ? markup``
    : markup`<ul class="marks">${items.map((item) => markup`<li class="refused">${item}</li>`)}</ul>`;
}

function factsOf({ sweep, methods }: SweepResults): string[] {
  const count = (state: string) => sweep.runs.filter((run) => run.state === state).length;
  const states = ['done', 'failed', 'skipped', 'running', 'waiting']
    .filter((state) => count(state) > 0)
    .map((state) => `${count(state)} ${state}`);
  const taken = sweep.taken === null ? [] : [`taken from the methods' files: ${listed(sweep.taken)}`];
  return [
    `${methods.length} methods, ${sweep.runs.length} runs: ${states.join(', ')}`,
    `${sweep.evaluation.kind} evaluations`,
    ...taken,
  ];
}

/** @param contamination lines on the evaluation data */
export async function sweepPage(
  { results, tables, claims }: SweepTables,
  contamination: readonly string[],
  title = `Sweep ${results.sweep.name}`,
): Promise<{ html: string; figures: readonly Figure[] }> {
  const pareto = [];
  for (const benchmark of results.benchmarks) pareto.push(await paretoFigure(results, benchmark));
  const drawn = pareto.filter((figure) => figure !== null);
  const dynamics = await dynamicsFigures(await drawnMethods(results.methods), MOST_POINTS);
  const section = (id: string, name: string, content: Html): Section => ({ id, title: name, content });
  const lines = contamination.map((line) => markup`<p>${line[0]!.toUpperCase()}${line.slice(1)}</p>`);
  const sections = [
    section('results', 'Main results', markup`${tablesHtml(tables, 'main')} ${figuresHtml(drawn)} ${lines}`),
    section('collapse', 'Collapse', tablesHtml(tables, 'collapse', 'trajectories')),
    section('levels', 'Levels and other benchmarks', tablesHtml(tables, 'levels', 'benchmarks')),
    section('dynamics', 'Training dynamics', dynamicsHtml(dynamics)),
    section('comparisons', 'Comparisons', tablesHtml(tables, 'comparisons')),
    section('rewards', 'Rewards', tablesHtml(tables, 'rewards')),
    section('runs', 'Runs', markup`${statesHtml(results)} ${tablesHtml(tables, 'runs')}`),
  ].filter(({ content }) => content.text.trim() !== '');
  const figures = [...drawn, ...dynamics.flatMap((group) => group.figures)];
  const verdict = claimsText(claims);
  const facts = factsOf(results);
  const html = pageHtml({ title, verdict, facts, tiles: [], sections, figures, completions: null });
  return { html, figures };
}
