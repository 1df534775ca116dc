/** Evaluations as tables: a single one in full, several in the layout of the paper's tables 3 and 4. */
import type { EvalReport, Interval } from '../../eval';
import { isPaperBenchmark, PAPER_BENCHMARKS, PAPER_TABLE_3, PAPER_TABLE_4 } from '../../eval/paper';
import { grouped, percent } from '../../base/text';
import { formatTable } from '../table';
import { change } from '../view/format';
import type { Evaluated } from './run';

/** A number that a file lacks. */
const UNKNOWN = '-';

export const percentOf = (fraction: number): string => (Number.isNaN(fraction) ? UNKNOWN : percent(fraction));

export const tokensOf = (tokens: number): string => (Number.isNaN(tokens) ? UNKNOWN : tokens.toFixed(1));

/** `79.1-85.0`. */
function range({ low, high }: Interval, text: (end: number) => string): string {
  return Number.isNaN(low) ? UNKNOWN : `${text(low)}-${text(high)}`;
}

const percentRange = (interval: Interval): string => range(interval, (end) => (100 * end).toFixed(1));
const tokenRange = (interval: Interval): string => range(interval, (end) => end.toFixed(1));

/** Mean total tokens with the change from the base, as in the paper's table 3. */
function wholeTokens(tokens: number, base?: number): string {
  if (Number.isNaN(tokens)) return UNKNOWN;
  const text = grouped(Math.round(tokens));
  return base === undefined || Number.isNaN(base) || base === 0 ? text : `${text} (${change(base, tokens)})`;
}

const answersOf = (report: EvalReport): string =>
  report.n === report.problems ? `${report.n}` : `${report.n} to ${report.problems} problems`;

function levelTable(report: EvalReport): string {
  const row = (name: string, s: EvalReport | EvalReport['perLevel'][string]): string[] => [
    name,
    String(s.n),
    percentOf(s.accuracy),
    percentRange(s.intervals.accuracy),
    tokensOf(s.thinkingTokens),
    tokenRange(s.intervals.thinkingTokens),
    tokensOf(s.totalTokens),
  ];
  return formatTable([
    ['level', 'answers', 'accuracy', '95%', 'thinking tokens', '95%', 'total tokens'],
    ...Object.entries(report.perLevel).map(([level, s]) => row(level, s)),
    row('all', report),
  ]);
}

const fact = (name: string, text: string): string => `${name.padEnd(17)}${text}`;

function lengthLine(name: 'thinking' | 'total', report: EvalReport): string {
  const key = `${name}Tokens` as const;
  const medianKey = `median${name === 'thinking' ? 'Thinking' : 'Total'}Tokens` as const;
  const { intervals } = report;
  const mean = `mean ${tokensOf(report[key])} (95% ${tokenRange(intervals[key])})`;
  const median = `median ${tokensOf(report[medianKey])} (${tokenRange(intervals[medianKey])})`;
  return fact(`${name} tokens`, `${mean}, ${median}`);
}

function sideLine(name: 'correct' | 'incorrect', report: EvalReport): string {
  const { n, thinkingTokens, totalTokens } = report[name];
  const lengths = `${tokensOf(thinkingTokens)} thinking tokens, ${tokensOf(totalTokens)} in total`;
  return fact(name, n === 0 ? '0 answers' : `${n} answers, ${lengths}`);
}

/** Counts of completions that were neither correct nor incorrect, if there are any. */
function statusLine({ statuses }: EvalReport): string[] {
  const parts = [
    [statuses.unparseable, 'without a readable boxed answer'],
    [statuses.timeout, 'with an answer too expensive to compare'],
    [statuses['gold-unparseable'], 'to problems whose reference answer cannot be parsed'],
  ] as const;
  const there = parts.filter(([count]) => count > 0).map(([count, what]) => `${count} ${what}`);
  return there.length === 0 ? [] : [fact('of these', there.join(', '))];
}

/** How many answers only the paper's rule finds, if there are any. */
function openThinkingLine({ openThinking: { answers, correct } }: EvalReport): string[] {
  return answers === 0 ? [] : [fact('open thinking', `${answers} answers, ${correct} of them correct`)];
}

function samplesTable({ atK }: EvalReport): string[] {
  if (atK.length === 0) return [];
  const rows = atK.map(({ k, pass, majority }) => [String(k), percentOf(pass), percentOf(majority)]);
  return ['', formatTable([['k', 'pass@k', 'maj@k'], ...rows])];
}

/** All figures of one evaluation, and what decided. */
export function fullReport(report: EvalReport & { judge: string }): string {
  const { intervals } = report;
  const perThousand = `${tokensOf(report.accuracyPer1kTokens)} (95% ${tokenRange(intervals.accuracyPer1kTokens)})`;
  return [
    levelTable(report),
    '',
    fact('judge', report.judge),
    fact(
      'answers',
      `${answersOf(report)}, accuracy ${percentOf(report.accuracy)} (95% ${percentRange(intervals.accuracy)})`,
    ),
    lengthLine('thinking', report),
    lengthLine('total', report),
    fact('per 1K tokens', `accuracy ${perThousand}`),
    sideLine('correct', report),
    sideLine('incorrect', report),
    ...statusLine(report),
    ...openThinkingLine(report),
    fact('cut off', `${percentOf(report.truncated)} by the token limit`),
    ...samplesTable(report),
    '',
  ].join('\n');
}

const titleOf = (benchmark: string): string =>
  isPaperBenchmark(benchmark) ? PAPER_BENCHMARKS[benchmark] : benchmark;

const namesIn = (evaluated: readonly Evaluated[], key: 'label' | 'benchmark'): string[] => [
  ...new Set(evaluated.map((one) => one[key])),
];

/** The most accurate checkpoint of a run on the first benchmark; of equals, the one with fewer tokens. */
function peakOf(checkpoints: readonly Evaluated[]): Evaluated {
  const better = (a: Evaluated, b: Evaluated) =>
    b.accuracy - a.accuracy || a.totalTokens - b.totalTokens || b.step! - a.step!;
  return [...checkpoints].sort(better)[0]!;
}

/** `last` and, if it is a different checkpoint, `† peak`, as the paper reports methods that collapse. */
function marksOf(evaluated: readonly Evaluated[]): Map<string, string> {
  const marks = new Map<string, string>();
  const primary = evaluated.filter(
    (one) => one.run !== undefined && one.benchmark === evaluated[0]!.benchmark,
  );
  for (const run of new Set(primary.map((one) => one.run))) {
    const checkpoints = primary.filter((one) => one.run === run);
    const [peak, last] = [peakOf(checkpoints), checkpoints.at(-1)!];
    marks.set(peak.label, '† peak');
    marks.set(last.label, peak === last ? 'last, peak' : 'last');
  }
  return marks;
}

/** Methods by benchmarks: accuracy with its interval, mean total tokens with the change from the base. */
function methodTable(evaluated: readonly Evaluated[]): string {
  const benchmarks = namesIn(evaluated, 'benchmark');
  const marks = marksOf(evaluated);
  const of = (label: string, name: string) =>
    evaluated.find((one) => one.label === label && one.benchmark === name);
  const header = benchmarks.flatMap((name) => [`${titleOf(name)} acc`, '95%', 'tokens']);
  const body = namesIn(evaluated, 'label').map((label) => [
    label,
    marks.get(label) ?? '',
    ...benchmarks.flatMap((name) => {
      const { accuracy, intervals, totalTokens } = of(label, name)!;
      const before = label === 'base' ? undefined : of('base', name)?.totalTokens;
      return [percentOf(accuracy), percentRange(intervals.accuracy), wholeTokens(totalTokens, before)];
    }),
  ]);
  return formatTable([['method', '', ...header], ...body], 2);
}

/** The paper's table 3 for the evaluated benchmarks; empty if none is the paper's. */
export function paperTable3(benchmarks: readonly string[]): string[] {
  const shared = benchmarks.filter(isPaperBenchmark);
  if (shared.length === 0) return [];
  const base = PAPER_TABLE_3[0]!.figures;
  const body = PAPER_TABLE_3.map(({ method, figures }, i) => [
    method,
    ...shared.flatMap((name) => {
      const { accuracy, tokens } = figures[name];
      return [`${accuracy.toFixed(1)}%`, wholeTokens(tokens, i === 0 ? undefined : base[name].tokens)];
    }),
  ]);
  const header = shared.flatMap((name) => [`${titleOf(name)} acc`, 'tokens']);
  return [
    '',
    "The paper's table 3 (Qwen3-1.7B; † before collapse):",
    formatTable([['method', ...header], ...body]),
  ];
}

/** Levels by methods on one benchmark, with the change from the base, as in the paper's table 4. */
function levelComparison(benchmark: string, evaluated: readonly Evaluated[]): string[] {
  const own = evaluated.filter((one) => one.benchmark === benchmark && Object.keys(one.perLevel).length > 0);
  if (own.length === 0) return [];
  const base = own.find((one) => one.label === 'base');
  const levels = Object.keys(own[0]!.perLevel);
  const body = levels.flatMap((level) =>
    own.map((one, i) => {
      const { accuracy, totalTokens, intervals } = one.perLevel[level]!;
      const before = base === undefined || one === base ? NaN : base.perLevel[level]!.totalTokens;
      const delta = Number.isNaN(before) ? '' : change(before, totalTokens);
      const figures = [
        percentOf(accuracy),
        percentRange(intervals.accuracy),
        wholeTokens(totalTokens),
        delta,
      ];
      return [i === 0 ? level : '', one.label, ...figures];
    }),
  );
  const header = ['level', 'method', 'accuracy', '95%', 'tokens', 'change'];
  return ['', `${titleOf(benchmark)} by level:`, formatTable([header, ...body], 2)];
}

export function paperTable4(benchmarks: readonly string[]): string[] {
  if (!benchmarks.includes('math500')) return [];
  const figures = ({ accuracy, tokens }: Record<'accuracy' | 'tokens', number>) => [
    `${accuracy.toFixed(1)}%`,
    grouped(tokens),
  ];
  const body = PAPER_TABLE_4.flatMap(({ level, base, acoer }) => [
    [level, 'Base', ...figures(base), ''],
    ['', 'ACOER @1200', ...figures(acoer), change(base.tokens, acoer.tokens)],
  ]);
  return [
    '',
    "The paper's table 4 (MATH-500):",
    formatTable([['level', 'method', 'accuracy', 'tokens', 'change'], ...body], 2),
  ];
}

/** One evaluation in full, or several in tables, next to the paper's figures on its own benchmarks. */
export function evaluationText(evaluated: readonly Evaluated[]): string {
  const benchmarks = namesIn(evaluated, 'benchmark');
  const parts =
    evaluated.length === 1
      ? [fullReport(evaluated[0]!)]
      : [
          methodTable(evaluated),
          '',
          `Judge: ${evaluated[0]!.judge}`,
          ...benchmarks.flatMap((name) => levelComparison(name, evaluated)),
        ];
  return [...parts, ...paperTable3(benchmarks), ...paperTable4(benchmarks), '']
    .join('\n')
    .replace(/\n+$/, '\n');
}
