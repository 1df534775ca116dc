/** What a run came to, in sentences derived from its numbers alone. */
import type { EvalSummary } from '../../eval';
import type { RunSummary } from '../../grpo';
import type { StepMetrics } from '../../types';
import { change, percent } from './format';

/** Steps averaged before accuracies of the run are compared: one step's is too noisy. */
const WINDOW = 25;
/** A fall of sampled accuracy from its peak in training that is more than noise (the paper's 5 points). */
const LOST_POINTS = 0.05;
/** Thinking below this share of the base's counts as shortened. */
const SHORTENED = 0.8;
/** Greedy accuracy may end this far below the base's and still count as held. */
const HELD_POINTS = 0.02;

export interface Course {
  peak: number;
  /** Last step of the window with the peak. */
  peakStep: number;
  end: number;
}

/** Sampled accuracy in training, averaged over `WINDOW` steps: its peak and where it ended; null for a short run. */
export function accuracyCourse(all: readonly StepMetrics[]): Course | null {
  // A step refused before its batch was made has none.
  const lines = all.filter((line) => 'accuracy/mean' in line);
  const values = lines.map((line) => line['accuracy/mean']!);
  if (values.length < 2 * WINDOW) return null;
  let course: Course | null = null;
  for (let last = WINDOW - 1; last < values.length; last++) {
    const mean = values.slice(last - WINDOW + 1, last + 1).reduce((a, b) => a + b, 0) / WINDOW;
    if (course === null || mean > course.peak)
      course = { peak: mean, peakStep: lines[last]!.step!, end: mean };
    course.end = mean;
  }
  return course;
}

function comparison(name: string, before: EvalSummary, after: EvalSummary): string {
  return `${name} accuracy ${percent(before.accuracy)} -> ${percent(after.accuracy)}`;
}

function verdict(summary: RunSummary, course: Course | null): string {
  const { base, trained } = summary;
  const before = base.sampled ?? base.greedy!;
  const after = trained.sampled ?? trained.greedy!;
  const shortened = after.thinkingTokens < SHORTENED * before.thinkingTokens;
  const fellFromPeak = course !== null && course.peak - course.end >= LOST_POINTS;
  const belowBase =
    (base.greedy !== null && trained.greedy!.accuracy < base.greedy.accuracy - HELD_POINTS) ||
    (base.sampled !== null && trained.sampled!.accuracy < base.sampled.accuracy);
  if (shortened && (fellFromPeak || belowBase))
    return 'Over-compressed: thinking got shorter at the price of accuracy.';
  if (shortened) return 'Shortened and held: thinking got shorter and accuracy did not pay for it.';
  if (fellFromPeak || belowBase) return 'Accuracy was lost without making thinking shorter.';
  return 'Thinking did not get much shorter.';
}

/** The closing lines: what happened, and the numbers it is read from. */
export function closingLines(summary: RunSummary, lines: readonly StepMetrics[]): string[] {
  const { base, trained } = summary;
  const before = base.sampled ?? base.greedy;
  const after = trained.sampled ?? trained.greedy;
  if (before === null || after === null) return [];
  const course = accuracyCourse(lines);
  const saved = change(before.thinkingTokens, after.thinkingTokens);
  const facts = [
    `thinking ${before.thinkingTokens.toFixed(1)} -> ${after.thinkingTokens.toFixed(1)} tokens (${saved})`,
    ...(base.greedy && trained.greedy ? [comparison('greedy', base.greedy, trained.greedy)] : []),
    ...(base.sampled && trained.sampled ? [comparison('sampled', base.sampled, trained.sampled)] : []),
  ];
  const closing = [verdict(summary, course), `  ${facts.join(', ')}`];
  if (course !== null && course.peak - course.end >= LOST_POINTS) {
    const points = (100 * (course.peak - course.end)).toFixed(1);
    closing.push(
      `  sampled accuracy in training peaked at ${percent(course.peak)} (step ${course.peakStep}) and ended ${points} points lower, at ${percent(course.end)}`,
    );
  }
  return closing;
}
