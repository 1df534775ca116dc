/** The verdict on a run: whether thinking got shorter and accuracy held against the base and its own peak. */
import { needList, needObject } from '../base/border';
import { type AccuracyChange, accuracyChange } from '../eval';
import { mean, sampleStd } from '../base/statistics';
import type { KnownMetrics } from '../base/metric-names';
import { HEALTH, type Health } from '../base/types';
import type { EvalKind, Evaluation, RunEvaluation, RunSummary } from '../life/events';

/** Thinking below this share of the base's counts as shortened. */
const SHORTENED = 0.8;
/** If tokens outside the first block take back this share of the thinking saved, it has moved, not shrunk. */
const MOVED = 0.5;
/** Below this accuracy there is nothing to preserve. */
const NO_ACCURACY = 0.05;
/** An interval that reaches further below 0 than this does not tell whether accuracy held. */
const TELLING = 0.1;
/** Chance of calling equal accuracies unequal, divided among the comparisons with the base. */
const LEVEL = 0.05;
/**
 * A fall from the peak counts if it is at least the paper's five points and this many standard errors,
 * because the peak is the highest of many points.
 */
const PEAK_DROP = 0.05;
const PEAK_ERRORS = 3.5;
/** Training steps averaged into one point of the course of accuracy. */
const WINDOW = 25;

/**
 * - `held`: shortened, and accuracy kept
 * - `over-compressed`: shortened, but accuracy is below the base's
 * - `below-peak`: shortened; accuracy is not below the base's, but below the run's own peak
 * - `moved`: thinking went elsewhere in the completion
 * - `collapsed`: not below the base, but the monitor ended in this state
 * - `untold`: shortened, but there are too few problems to tell whether accuracy held
 * - `no-accuracy`: shortened, but there was no accuracy to preserve
 * - `lost`: not shortened, and accuracy is below the base's or the run's own peak
 * - `not-shortened`
 */
export type RunOutcome =
  | 'held'
  | 'over-compressed'
  | 'below-peak'
  | 'moved'
  | 'collapsed'
  | 'untold'
  | 'no-accuracy'
  | 'lost'
  | 'not-shortened';

/** The highest accuracy against the final one: of evaluations if the run made any, otherwise of training. */
export interface PeakComparison {
  of: EvalKind | 'training';
  peak: number;
  /** Last step of the window, or the step evaluated. */
  peakStep: number;
  end: number;
  /** Standard error of `peak - end`. */
  standardError: number;
  fell: boolean;
}

/** Steps at which the monitor's state rose to warning and to collapsed, and the state at the end. */
export interface MonitorCourse {
  warnedAt: number | null;
  collapsedAt: number | null;
  end: Health;
}

export interface RunVerdict {
  outcome: RunOutcome;
  /** One sentence. */
  sentence: string;
  /** Against the base, on the same problems; null where not evaluated. */
  greedy: AccuracyChange | null;
  sampled: AccuracyChange | null;
  /** null: the run was too short. */
  peak: PeakComparison | null;
  monitor: MonitorCourse;
  /** Means over completions before and after. */
  thinking: { before: number; after: number };
  /** Tokens outside the first thinking block, means as above. */
  outside: { before: number; after: number };
}

const SENTENCES: Readonly<Record<RunOutcome, string>> = {
  held: 'Shortened and held: thinking got shorter without a loss of accuracy.',
  'over-compressed': 'Over-compressed: thinking got shorter at the cost of accuracy.',
  'below-peak': "Shortened, not held: accuracy is not below the base's, but is below its own peak.",
  moved: 'Moved, not shortened: what left the thinking block is now written outside it.',
  collapsed: 'Collapsed: the monitor ended in this state.',
  untold: 'Shortened, but there are too few problems to tell whether accuracy held.',
  'no-accuracy': 'Shortened, but there was no accuracy to preserve.',
  lost: 'Accuracy was lost without making thinking shorter.',
  'not-shortened': 'Thinking did not get much shorter.',
};

const solvedOf = ({ solved }: RunEvaluation): boolean[] | null =>
  solved === undefined ? null : Array.from(solved, (mark) => mark === '1');

function against(before: RunEvaluation | null, after: RunEvaluation | null): AccuracyChange | null {
  if (before === null || after === null) return null;
  const [a, b] = [solvedOf(before), solvedOf(after)];
  return accuracyChange({ ...before, solved: a }, { ...after, solved: b });
}

interface Point {
  step: number;
  accuracy: number;
  variance: number;
}

/** Accuracy of the step evaluations of one kind; the last point is the trained model's. */
function evaluated(kind: EvalKind, lines: readonly KnownMetrics[], { trained, run }: RunSummary): Point[] {
  const end = trained[kind];
  if (end === null) return [];
  const name = `eval/${kind}_accuracy` as const;
  const point = (step: number, accuracy: number): Point => {
    // Agresti and Caffo (2000): with one success and one failure added, no proportion is certain.
    const p = (accuracy * end.n + 1) / (end.n + 2);
    return { step, accuracy, variance: (p * (1 - p)) / (end.n + 2) };
  };
  const before = lines.filter((line) => line[name] !== undefined && line.step! < run.steps);
  return [...before.map((line) => point(line.step!, line[name]!)), point(run.steps, end.accuracy)];
}

/** Averages of training over windows that do not overlap, the last of which ends with the run. */
function trained(lines: readonly KnownMetrics[]): Point[] {
  // A step refused before its batch was made has no accuracy.
  const made = lines.filter((line) => line['accuracy/mean'] !== undefined);
  const first = made.length % WINDOW;
  return Array.from({ length: Math.floor(made.length / WINDOW) }, (_, i) => {
    const window = made.slice(first + i * WINDOW, first + (i + 1) * WINDOW);
    const values = window.map((line) => line['accuracy/mean']!);
    return { step: window.at(-1)!.step!, accuracy: mean(values), variance: sampleStd(values) ** 2 / WINDOW };
  });
}

function peakOf(of: PeakComparison['of'], points: readonly Point[]): PeakComparison | null {
  const end = points.at(-1);
  if (end === undefined || points.length < 2) return null;
  const highest = points.reduce((best, point) => (point.accuracy > best.accuracy ? point : best));
  const standardError = Math.sqrt(highest.variance + end.variance);
  const drop = highest.accuracy - end.accuracy;
  return {
    of,
    peak: highest.accuracy,
    peakStep: highest.step,
    end: end.accuracy,
    standardError,
    fell: drop >= PEAK_DROP && drop >= PEAK_ERRORS * standardError,
  };
}

/** The run's evaluations decide if there are any, because each window of training has different problems. */
function ownPeak(lines: readonly KnownMetrics[], summary: RunSummary): PeakComparison | null {
  const found = (['sampled', 'greedy'] as const)
    .map((kind) => peakOf(kind, evaluated(kind, lines, summary)))
    .filter((peak) => peak !== null);
  return found.find(({ fell }) => fell) ?? found[0] ?? peakOf('training', trained(lines));
}

function monitorCourse(lines: readonly KnownMetrics[]): MonitorCourse {
  const states = lines.filter((line) => line['monitor/state'] !== undefined);
  const firstAt = (level: number) => states.find((line) => line['monitor/state']! >= level)?.step ?? null;
  const end = HEALTH[states.at(-1)?.['monitor/state'] ?? 0] ?? 'healthy';
  return { warnedAt: firstAt(1), collapsedAt: firstAt(2), end };
}

type Judged = Omit<RunVerdict, 'outcome' | 'sentence'>;

function outcomeOf({ greedy, sampled, peak, monitor, thinking, outside }: Judged): RunOutcome {
  const changes = [greedy, sampled].filter((change) => change !== null);
  const lower = changes.some(({ difference, p }) => difference < 0 && p < LEVEL / changes.length);
  const higher = changes.some(({ difference, p }) => difference > 0 && p < LEVEL / changes.length);
  const shortened = thinking.after < SHORTENED * thinking.before;
  const saved = thinking.before - thinking.after;
  if (lower) return shortened ? 'over-compressed' : 'lost';
  if (monitor.end === 'collapsed') return 'collapsed';
  if (!shortened) return peak?.fell === true ? 'lost' : 'not-shortened';
  if (outside.after - outside.before > MOVED * saved) return 'moved';
  if (!higher && changes.every(({ before }) => before < NO_ACCURACY)) return 'no-accuracy';
  if (peak?.fell === true) return 'below-peak';
  return changes.some(({ interval }) => interval.low >= -TELLING) ? 'held' : 'untold';
}

const lengthsOf = ({ thinkingTokens, totalTokens }: RunEvaluation) => ({
  thinking: thinkingTokens,
  outside: totalTokens - thinkingTokens,
});

/** The sampled evaluation if there is one: greedy decoding hides a loss of certainty. */
const shownOf = ({ greedy, sampled }: Evaluation): RunEvaluation | null => sampled ?? greedy;

/**
 * The verdict on a finished run.
 * @param lines the lines of its metrics.jsonl
 * @returns null when the run evaluated nothing
 */
export function runVerdict(summary: RunSummary, lines: readonly KnownMetrics[]): RunVerdict | null {
  needObject('summary', summary);
  for (const part of ['base', 'trained'] as const) needObject(`summary.${part}`, summary[part]);
  needList('lines', lines);
  const { base, trained: end } = summary;
  const [before, after] = [shownOf(base), shownOf(end)];
  if (before === null || after === null) return null;
  const [was, is] = [lengthsOf(before), lengthsOf(after)];
  const judged: Judged = {
    greedy: against(base.greedy, end.greedy),
    sampled: against(base.sampled, end.sampled),
    peak: ownPeak(lines, summary),
    monitor: monitorCourse(lines),
    thinking: { before: was.thinking, after: is.thinking },
    outside: { before: was.outside, after: is.outside },
  };
  const outcome = outcomeOf(judged);
  return { outcome, sentence: SENTENCES[outcome], ...judged };
}
