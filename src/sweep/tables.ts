/** The paper's tables of a sweep, as data. Numbers are the paper's: 2 trajectories, 3 main results, 4 levels. */
import { listRewards } from '../rewards';
import { baseCell, benchmarkTitle, estimateValue, meanCell, plainValue } from './cells';
import { isShown, pairedEstimate, withBase, type Comparison } from './comparisons';
import type { Measured } from './measured';
import {
  acoerOf,
  atStep,
  baseOf,
  collapsedAt,
  endOf,
  peakStep,
  type Method,
  type RunResult,
  type SweepResults,
} from './results';
import { none, text, type Cell, type Column, type Table } from './table';

/** Marks of the tables. */
export const MARK = { paper: '†', guard: '‡', base: '∗', acoer: '§' } as const;

const DAGGERS = `${MARK.paper} collapsed by the paper's criterion, ${MARK.guard} by the run's guard alone.`;

const rewardRow = ({ name, reward }: Method): Cell[] => {
  const known = listRewards().find((one) => one.name === reward);
  const { formula = 'a reward of the user', taxonomy } = known ?? {};
  const yes = (value: boolean | undefined) => (value === undefined ? '?' : value ? 'yes' : 'no');
  const pressure = [taxonomy?.correct ?? '?', taxonomy?.incorrect ?? '?'];
  const traits = [taxonomy?.bounded, taxonomy?.continuous, taxonomy?.adaptive].map(yes);
  return [name, formula, ...pressure, ...traits].map(text);
};

/** Table 1: the rewards as they are computed; the format reward is added to all. */
export function rewardsTable({ methods }: SweepResults): Table {
  const columns = ['method', 'reward r', 'correct', 'incorrect', 'bounded', 'continuous', 'adaptive'];
  return {
    id: 'rewards',
    title: 'Table 1: rewards',
    columns: columns.map((name) => ({ name })),
    blocks: [methods.map(rewardRow)],
    notes: ['Correct and incorrect: which way the reward presses on the length of such answers.'],
  };
}

/** `†` in the row in which a run's collapse began. */
function onsetMark(result: RunResult, steps: readonly number[], step: number): string {
  const at = collapsedAt(result);
  if (at === null || steps.find((one) => one >= at) !== step) return '';
  return result.paper.onset === null ? MARK.guard : MARK.paper;
}

function trajectoryCell(result: RunResult, benchmark: string, steps: readonly number[], step: number): Cell {
  const found = atStep(result, benchmark, step);
  if (found === null) return none;
  const accuracy = plainValue('accuracy', found.accuracy);
  return [accuracy, onsetMark(result, steps, step), ' / ', plainValue('totalTokens', found.totalTokens)];
}

/** Columns that a page holds besides the steps. */
const TRAJECTORIES = 6;

/** Whole methods side by side, as many as a page holds. */
function pagesOf(methods: readonly Method[]): Method[][] {
  const pages: Method[][] = [];
  let room = 0;
  for (const method of methods) {
    if (method.runs.length > room || pages.length === 0) {
      pages.push([]);
      room = TRAJECTORIES;
    }
    pages.at(-1)!.push(method);
    room -= method.runs.length;
  }
  return pages;
}

/** Table 2: accuracy and mean total tokens at every evaluation, one column a run, on the first benchmark. */
export function trajectoryTables({ methods, benchmarks }: SweepResults): Table[] {
  const [benchmark] = benchmarks;
  if (benchmark === undefined) return [];
  const pages = pagesOf(methods);
  return pages.map((page, i) => {
    const runs = page.flatMap((method) => method.runs);
    const found = runs.flatMap(({ evaluations }) => evaluations.get(benchmark) ?? []);
    const steps = [...new Set(found.map(({ step }) => step))].sort((a, b) => a - b);
    const row = (step: number): Cell[] => [
      text(step === 0 ? 'base' : String(step)),
      ...runs.map((result) => trajectoryCell(result, benchmark, steps, step)),
    ];
    const columns = page.flatMap((method) =>
      method.runs.map(({ run }): Column => ({ name: `seed ${run.seed}`, group: method.name })),
    );
    const part = pages.length === 1 ? '' : `, part ${i + 1} of ${pages.length}`;
    return {
      id: pages.length === 1 ? 'trajectories' : `trajectories-${i + 1}`,
      title: `Table 2: trajectories on ${benchmarkTitle(benchmark)}${part}`,
      columns: [{ name: 'step' }, ...columns],
      blocks: [steps.filter((step) => step === 0).map(row), steps.filter((step) => step > 0).map(row)],
      notes: [`Accuracy (%) / mean total tokens of single runs; at the step where it began, ${DAGGERS}`],
    };
  });
}

const HEADINGS = ['acc. (%)', 'thinking', 'tokens', 'change'] as const;

const ends = (method: Method, benchmark: string): Measured[] =>
  method.runs.map((run) => endOf(run, benchmark)).filter((one) => one !== null);

/** Evaluations of the base: one a run of the method with most of them. */
export function basesOf(methods: readonly Method[], benchmark: string): Measured[] {
  const all = methods.map(({ runs }) =>
    runs.map((run) => baseOf(run, benchmark)).filter((one) => one !== null),
  );
  return all.reduce((most, own) => (own.length > most.length ? own : most), []);
}

function marksOf(comparisons: readonly Comparison[], quantity: Comparison['quantity']): string {
  const shown = comparisons.filter((one) => one.quantity === quantity && isShown(one));
  return shown.map(({ against }) => MARK[against]).join('');
}

/** The change of total tokens from the base, with its interval: shown, not tested. */
function changeCell(pairs: Parameters<typeof pairedEstimate>[0]): Cell {
  const estimate = pairedEstimate(pairs, 'totalTokens');
  return estimate === null ? none : [estimateValue('total_change', 'change', estimate)];
}

function endCells(method: Method, benchmark: string, comparisons: readonly Comparison[]): Cell[] {
  const own = comparisons.filter((one) => one.method === method && one.benchmark === benchmark);
  const found = ends(method, benchmark);
  return [
    [...meanCell(found, 'accuracy'), marksOf(own, 'accuracy')],
    [...meanCell(found, 'thinkingTokens'), marksOf(own, 'thinkingTokens')],
    meanCell(found, 'totalTokens'),
    changeCell(withBase(method, benchmark)),
  ];
}

const collapsedRuns = ({ runs }: Method): RunResult[] => runs.filter((run) => collapsedAt(run) !== null);

function peakCells(collapsed: readonly RunResult[], benchmark: string): Cell[] {
  const pairs = collapsed.flatMap((run) => {
    const [base, peak] = [baseOf(run, benchmark), atStep(run, benchmark, peakStep(run))];
    return peak === null ? [] : [{ base, peak }];
  });
  const peaks = pairs.map(({ peak }) => peak);
  const changes = pairs.flatMap(({ base, peak }) => (base === null ? [] : [[base, peak] as const]));
  const means = (['accuracy', 'thinkingTokens', 'totalTokens'] as const).map((one) => meanCell(peaks, one));
  return [...means, changeCell(changes)];
}

/** A method at the end of its runs and, if some collapsed, these at their peaks. */
function methodRows(method: Method, { benchmarks }: SweepResults, all: readonly Comparison[]): Cell[][] {
  const done = method.runs.filter(({ run }) => run.state === 'done');
  const collapsed = collapsedRuns(method);
  const dagger = collapsed.some(({ paper }) => paper.onset !== null) ? MARK.paper : MARK.guard;
  const hasPeak = collapsed.some((run) => peakStep(run) !== null);
  const end = [
    text(collapsed.length > 0 && !hasPeak ? `${method.name} ${dagger}` : method.name),
    text(String(done.length)),
    ...benchmarks.flatMap((benchmark) => endCells(method, benchmark, all)),
  ];
  if (!hasPeak) return [end];
  const steps = [...new Set(collapsed.map(peakStep))].filter((step) => step !== null).sort((a, b) => a - b);
  const where = steps.length === 0 ? '' : ` @${steps.join(', ')}`;
  const peak = benchmarks.flatMap((benchmark) => peakCells(collapsed, benchmark));
  return [end, [text(`${method.name}${where} ${dagger}`), text(String(collapsed.length)), ...peak]];
}

/** How many comparisons a mark is corrected for. */
function correction(comparisons: readonly Comparison[]): string[] {
  const tested = (against: Comparison['against']) =>
    comparisons.filter((one) => one.against === against && one.estimate.p !== null).length;
  const [base, acoer] = [tested('base'), tested('acoer')];
  if (base + acoer === 0) return ['Nothing is tested: a test of a method needs 5 of its seeds.'];
  return [
    `${MARK.base} differs from the base, ${MARK.acoer} from ACOER, at 5% by a two-level bootstrap paired by seed and problem, corrected by Holm for ${base} and ${acoer} comparisons.`,
  ];
}

/** Table 3: methods by benchmarks at the end of training; collapsed runs also at their peak. */
export function mainTable(results: SweepResults, comparisons: readonly Comparison[]): Table {
  const { methods, benchmarks } = results;
  const group = (benchmark: string) =>
    HEADINGS.map((name): Column => ({ name, group: benchmarkTitle(benchmark) }));
  const base = benchmarks.flatMap((benchmark): Cell[] => {
    const own = basesOf(methods, benchmark);
    const cells = (['accuracy', 'thinkingTokens', 'totalTokens'] as const).map((one) => baseCell(own, one));
    return [...cells, none];
  });
  const rows = methods.map((method) => ({ method, rows: methodRows(method, results, comparisons) }));
  const stable = rows.filter(({ method }) => collapsedRuns(method).length === 0);
  const others = rows.filter(({ method }) => collapsedRuns(method).length > 0);
  return {
    id: 'main',
    title: 'Table 3: main results',
    columns: [{ name: 'method' }, { name: 'runs' }, ...benchmarks.flatMap(group)],
    blocks: [
      [[text('base'), text(''), ...base]],
      stable.flatMap((one) => one.rows),
      others.flatMap((one) => one.rows),
    ].filter((block) => block.length > 0),
    notes: [
      'Means over the runs of a method, with 95% intervals over seeds and problems; the base is one model, its interval is over problems. Tokens are means; change: of all tokens from the base.',
      `Runs that collapsed are also shown at their most accurate evaluation before (@ step). ${DAGGERS}`,
      ...correction(comparisons),
    ],
  };
}

/** Table 4: by level on the first benchmark, the base and ACOER; all methods where ACOER is not among them. */
export function levelsTable({ methods, benchmarks }: SweepResults): Table | null {
  const [benchmark] = benchmarks;
  if (benchmark === undefined) return null;
  const bases = basesOf(methods, benchmark);
  const levels = [...new Set(bases[0]?.problems?.map(({ level }) => level) ?? [])]
    .filter((level) => level !== null)
    .sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
  if (levels.length === 0) return null;
  const acoer = acoerOf(methods);
  const shown = (acoer.length > 0 ? acoer : methods).filter((method) => ends(method, benchmark).length > 0);
  const blocks = levels.map((level): Cell[][] => {
    const cells = (own: Measured[], of: typeof meanCell) =>
      (['accuracy', 'totalTokens'] as const).map((quantity) => of(own, quantity, level));
    const rowOf = (method: Method): Cell[] => {
      const estimate = pairedEstimate(withBase(method, benchmark), 'totalTokens', level);
      const changed = estimate === null ? none : [estimateValue('total_change', 'change', estimate)];
      return [text(level), text(method.name), ...cells(ends(method, benchmark), meanCell), changed];
    };
    return [[text(level), text('base'), ...cells(bases, baseCell), none], ...shown.map(rowOf)];
  });
  return {
    id: 'levels',
    title: `Table 4: by level on ${benchmarkTitle(benchmark)}`,
    columns: ['level', 'method', 'acc. (%)', 'tokens', 'change'].map((name) => ({ name })),
    keys: 2,
    blocks,
    notes: ['Means with 95% intervals as in table 3; tokens are all of a completion.'],
  };
}
