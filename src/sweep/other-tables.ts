/** Tables of a sweep that the paper does not have: collapse, tests, evaluations on other benchmarks, states of runs. */
import { benchmarkTitle, estimateValue, plainValue } from './cells';
import { wilsonInterval, type Interval } from '../eval';
import { CRITERION, endsLow } from './collapse';
import { SIGNIFICANT, type Comparison } from './comparisons';
import type { Evaluated } from './eval-folders';
import { collapsedAt, endOf, peakStep, type Method, type RunResult, type SweepResults } from './results';
import { collapsedShare } from './statistics';
import { none, text, type Cell, type Table, type Value } from './table';

/** Runs of which it is known whether they collapsed. */
const judged = ({ runs }: Method): RunResult[] =>
  runs.filter(({ run, data }) => data !== null && (run.state === 'done' || run.collapsed));

/** `2 of 5: 40.0 [11.8, 76.9]`. */
const countCell = (quantity: string, count: number, of: number, interval: Interval): Cell => [
  `${count} of ${of}: `,
  { quantity, value: count / of, unit: 'percent', ...interval },
];

function shareCells(onsets: readonly (number | null)[]): Cell[] {
  if (onsets.length === 0) return [none, none];
  const { collapsed, runs, interval, steps } = collapsedShare(onsets);
  return [
    countCell('collapsed_share', collapsed, runs, interval),
    steps.length === 0 ? none : text(steps.join(', ')),
  ];
}

/** How many runs end below their peak. */
function lowCell(runs: readonly RunResult[], benchmark: string): Cell {
  const known = runs
    .map(({ evaluations }) => endsLow(evaluations.get(benchmark) ?? []))
    .filter((low) => low !== null);
  if (known.length === 0) return none;
  const low = known.filter(Boolean).length;
  return countCell('ends_low_share', low, known.length, wilsonInterval(low, known.length));
}

const thresholdsOf = (runs: readonly RunResult[]): Cell => {
  const known = runs.map(({ threshold }) => threshold).filter((one) => one !== null);
  const mean = known.reduce((sum, one) => sum + one, 0) / known.length;
  return known.length === 0 ? none : [plainValue('thinkingTokens', mean)];
};

/** How many runs of each method collapsed, and when, by the paper's criterion and by the guard. */
export function collapseTable({ methods, benchmarks }: SweepResults): Table {
  const [benchmark = ''] = benchmarks;
  const rows = methods.map((method): Cell[] => {
    const runs = judged(method);
    const decidable = runs.filter(({ paper }) => paper.decidable);
    const paper = shareCells(decidable.map((one) => one.paper.onset));
    const guard = shareCells(runs.map((one) => one.guard));
    return [text(method.name), ...paper, thresholdsOf(runs), ...guard, lowCell(runs, benchmark)];
  });
  const { steps } = CRITERION;
  const short = methods.flatMap(judged).filter(({ paper }) => !paper.decidable).length;
  return {
    id: 'collapse',
    title: 'Collapsed runs',
    columns: [
      { name: 'method' },
      { name: 'share (%)', group: "paper's criterion" },
      { name: 'from step', group: "paper's criterion" },
      { name: 'below tokens', group: "paper's criterion" },
      { name: 'share (%)', group: "the run's guard" },
      { name: 'from step', group: "the run's guard" },
      { name: 'share (%)', group: 'ends below its peak' },
    ],
    blocks: [rows],
    notes: [
      `The paper's criterion (section 4): mean thinking below a threshold and accuracy at least 5 points below its peak for ${steps} consecutive steps, applied to the recorded evaluations. A run ends below its peak if its last evaluation is so many points under its highest, whatever became of its length; with few problems that can be chance. Shares have Wilson's 95% intervals.`,
      ...(short === 0
        ? []
        : [
            `${short} runs are not judged by it: their evaluations after the base's span fewer than ${steps} steps, or were not made.`,
          ]),
    ],
  };
}

/** Every test, with its p before and after Holm's correction. */
export function comparisonsTable(comparisons: readonly Comparison[]): Table | null {
  if (comparisons.length === 0) return null;
  const row = ({ method, against, benchmark, quantity, estimate, p }: Comparison): Cell[] => {
    const unit = quantity === 'accuracy' ? 'points' : 'change';
    const name = quantity === 'accuracy' ? 'accuracy, points' : 'thinking tokens';
    const tested = (quantityName: string, value: number | null): Cell =>
      value === null ? none : [{ quantity: quantityName, value, unit: 'p' }];
    return [
      text(`${method.name} against ${against === 'base' ? 'the base' : 'ACOER'}`),
      text(benchmarkTitle(benchmark)),
      text(name),
      [estimateValue(quantity === 'accuracy' ? 'accuracy_difference' : 'thinking_change', unit, estimate)],
      tested('p', estimate.p),
      tested('p_holm', p),
    ];
  };
  const of = (against: Comparison['against']) =>
    comparisons.filter((one) => one.against === against).map(row);
  return {
    id: 'comparisons',
    title: 'Comparisons',
    columns: ['compared', 'benchmark', 'quantity', 'difference', 'p', 'p (Holm)'].map((name) => ({ name })),
    keys: 3,
    blocks: [of('base'), of('acoer')].filter((block) => block.length > 0),
    notes: [
      `At the end of training, paired by seed and problem; called a difference below ${SIGNIFICANT} after Holm's correction. Comparisons with the base and with ACOER are a family each.`,
    ],
  };
}

/** The folders of `acoer eval`: every model on every benchmark by itself. */
export function benchmarksTable(evaluated: readonly Evaluated[]): Table | null {
  if (evaluated.length === 0) return null;
  const ks = [...new Set(evaluated.flatMap(({ atK }) => atK.map(({ k }) => k)))].sort((a, b) => a - b);
  const row = (one: Evaluated): Cell[] => {
    const { intervals } = one;
    const figure = (value: Value, range: { low: number; high: number }): Cell => [{ ...value, ...range }];
    const rate: Value = { quantity: 'accuracy_per_1k', value: one.accuracyPer1kTokens, unit: 'rate' };
    return [
      text(one.label),
      text(benchmarkTitle(one.benchmark)),
      [{ quantity: 'answers', value: one.n, unit: 'count' }],
      figure(plainValue('accuracy', one.accuracy), intervals.accuracy),
      figure(plainValue('thinkingTokens', one.thinkingTokens), intervals.thinkingTokens),
      figure(plainValue('totalTokens', one.totalTokens), intervals.totalTokens),
      figure(rate, intervals.accuracyPer1kTokens),
      ...ks.map((k): Cell => {
        const found = one.atK.find((at) => at.k === k);
        return found === undefined ? none : [{ quantity: `pass@${k}`, value: found.pass, unit: 'percent' }];
      }),
    ];
  };
  const names = ['model', 'benchmark', 'answers', 'acc. (%)', 'thinking', 'tokens', 'acc. per 1K'];
  const benchmarks = [...new Set(evaluated.map(({ benchmark }) => benchmark))];
  return {
    id: 'benchmarks',
    title: 'Evaluations by acoer eval',
    columns: [...names, ...ks.map((k) => `pass@${k} (%)`)].map((name) => ({ name })),
    keys: 2,
    blocks: benchmarks.map((name) => evaluated.filter(({ benchmark }) => benchmark === name).map(row)),
    notes: [
      'Each row is one model: its 95% interval is over problems, not over seeds. Accuracy per 1K: percent per 1,000 tokens.',
    ],
  };
}

/** Every run with its state and its own numbers, for whoever wants the points behind a mean. */
export function runsTable({ methods, benchmarks }: SweepResults): Table {
  const [benchmark = ''] = benchmarks;
  const row = (result: RunResult): Cell[] => {
    const { run, data } = result;
    const end = endOf(result, benchmark);
    const at = collapsedAt(result);
    const last = data?.lines.at(-1)?.step ?? 0;
    const state = run.exitCode === null ? run.state : `${run.state}, exit ${run.exitCode}`;
    return [
      text(run.folder.replace(/^runs\//, '')),
      text(state),
      [{ quantity: 'steps', value: last, unit: 'count' }],
      end === null ? none : [plainValue('accuracy', end.accuracy)],
      end === null ? none : [plainValue('thinkingTokens', end.thinkingTokens)],
      end === null ? none : [plainValue('totalTokens', end.totalTokens)],
      text(String(peakStep(result) ?? '–')),
      text(at === null ? '–' : String(at)),
      text(run.message ?? ''),
    ];
  };
  const names = ['run', 'state', 'steps', 'acc. (%)', 'thinking', 'tokens', 'peak', 'collapse', 'why'];
  return {
    id: 'runs',
    title: 'Runs',
    columns: names.map((name) => ({ name })),
    blocks: methods.map(({ runs }) => runs.map(row)),
    notes: ['Single runs at the end of training; peak and collapse are steps.'],
  };
}
