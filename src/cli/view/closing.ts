/** What a run prints at its end: the table before and after, the outcome in a few lines, and an answer as illustration. */
import type { AccuracyChange, EvalSummary } from '../../eval';
import {
  runVerdict,
  type EvalKind,
  type MonitorCourse,
  type PeakComparison,
  type RunSummary,
  type TrainEvent,
} from '../../train';
import type { KnownMetrics } from '../../base/metric-names';
import { printable } from '../../base/printable';
import { percent } from '../../base/text';
import { alignTable } from '../table';
import { change, points } from './format';
import { wrapHard } from './text';

type Figures = Pick<EvalSummary, 'accuracy' | 'thinkingTokens'>;

function figureRow(name: string, before: Figures, after: Figures): string[] {
  return [
    name,
    percent(before.accuracy),
    percent(after.accuracy),
    before.thinkingTokens.toFixed(1),
    after.thinkingTokens.toFixed(1),
    change(before.thinkingTokens, after.thinkingTokens),
  ];
}

function section(kind: EvalKind, before: EvalSummary, after: EvalSummary): string[] {
  const title =
    kind === 'greedy' ? `greedy (${after.n} problems)` : `sampled at temperature 1 (${after.n} problems)`;
  const header = ['', 'accuracy', 'trained', 'thinking', 'trained', ''];
  const levels = Object.keys(before.perLevel).filter((level) => after.perLevel[level] !== undefined);
  const rows = levels.map((level) =>
    figureRow(`level ${level}`, before.perLevel[level]!, after.perLevel[level]!),
  );
  return [title, ...alignTable([header, ...rows, figureRow('all', before, after)])];
}

/** The evaluations before and after, per level and in total, greedy and sampled if both were made. */
export function summaryTable({ base, trained }: RunSummary): string[] {
  const sections = (['greedy', 'sampled'] as const).flatMap((kind) => {
    const [before, after] = [base[kind], trained[kind]];
    return before === null || after === null ? [] : [section(kind, before, after)];
  });
  return sections.flatMap((lines, i) => (i === 0 ? lines : ['', ...lines]));
}

/** Longer answers are reported if they grew by this fraction and by this share of the tokens saved. */
const GREW = 0.25;
const GREW_OF_SAVED = 0.1;

function accuracyFact({ before, after, n, difference, interval }: AccuracyChange): string {
  const gain = `${points(difference)} points (95% ${points(interval.low)} to ${points(interval.high)})`;
  return `base ${percent(before)} -> ${percent(after)} of ${n} problems, ${gain}`;
}

function peakFact({ of, peak, peakStep, end, standardError }: PeakComparison): string {
  const where = of === 'training' ? `averages of training` : `${of} evaluations`;
  const errors = standardError > 0 ? `, ${((peak - end) / standardError).toFixed(1)} standard errors` : '';
  return `${percent(peak)} at step ${peakStep} -> ${percent(end)}${errors} (${where})`;
}

function monitorFact({ warnedAt, collapsedAt, end }: MonitorCourse): string | null {
  if (warnedAt === null) return null;
  const said =
    collapsedAt === null ? `warned at step ${warnedAt}` : `found a collapse at step ${collapsedAt}`;
  return `${said}; ${end} at the end`;
}

/** The closing lines: what happened and the numbers behind it, each under 90 columns. */
export function closingLines(summary: RunSummary, lines: readonly KnownMetrics[]): string[] {
  const verdict = runVerdict(summary, lines);
  if (verdict === null) return [];
  const { sentence, greedy, sampled, peak, monitor, thinking, outside } = verdict;
  const lengths = ({ before, after }: typeof thinking) =>
    `${before.toFixed(1)} -> ${after.toFixed(1)} tokens`;
  const grown = outside.after - outside.before;
  const grew = grown > GREW * outside.before && grown > GREW_OF_SAVED * (thinking.before - thinking.after);
  const facts: [string, string | null][] = [
    ['thinking', `${lengths(thinking)} (${change(thinking.before, thinking.after)})`],
    ['outside', grew ? `${lengths(outside)} outside the thinking block, an increase` : null],
    ['greedy', greedy && accuracyFact(greedy)],
    ['sampled', sampled && accuracyFact(sampled)],
    ['own peak', peak?.fell === true ? peakFact(peak) : null],
    ['monitor', monitorFact(monitor)],
  ];
  const shown = facts.filter((fact): fact is [string, string] => fact[1] !== null);
  return [sentence, ...shown.map(([name, text]) => `  ${name.padEnd(8)}  ${text}`)];
}

export type Answer = Extract<TrainEvent, { type: 'answer' }>;

/** Maximum lines shown of an answer; a longer one is cut in the middle. */
const SHOWN_LINES = 12;
const INDENT = '    ';

function answerLines(text: string, width: number): string[] {
  const lines = printable(text)
    .trim()
    .split('\n')
    .flatMap((line) => wrapHard(line, width - INDENT.length));
  const half = SHOWN_LINES / 2;
  const left = lines.length - 2 * half;
  const shown = left <= 1 ? lines : [...lines.slice(0, half), `... ${left} lines ...`, ...lines.slice(-half)];
  return shown.map((line) => `${INDENT}${line}`.trimEnd());
}

const heading = (when: string, { correct, thinkingTokens }: Answer) =>
  `  ${when}: ${correct ? 'correct' : 'wrong'}, ${thinkingTokens} thinking tokens`;

/** Empty unless both answers are known. */
export function answersLines(base: Answer | null, trained: Answer | null, width: number): string[] {
  if (base === null || trained === null) return [];
  const [question, ...more] = wrapHard(printable(base.question).trim().replaceAll(/\s+/g, ' '), width - 2);
  return [
    'The first problem of the evaluation, greedy:',
    ...[question!, ...more].map((line) => `  ${line}`),
    heading('before', base),
    ...answerLines(base.text, width),
    heading('after', trained),
    ...answerLines(trained.text, width),
  ];
}
