/** Estimates as cells of tables. */
import { wilsonInterval } from '../eval';
import { isPaperBenchmark, PAPER_BENCHMARKS } from '../eval/paper';
import type { Measured, Quantity } from './measured';
import { rowsOf } from './measured';
import { itself, overProblems, overSeeds, type SeedEstimate } from './statistics';
import { none, type Cell, type Unit, type Value } from './table';

const NAMES: Readonly<Record<Quantity, string>> = {
  accuracy: 'accuracy',
  thinkingTokens: 'thinking_tokens',
  totalTokens: 'total_tokens',
};
const UNITS: Readonly<Record<Quantity, Unit>> = {
  accuracy: 'percent',
  thinkingTokens: 'tokens',
  totalTokens: 'tokens',
};

export const benchmarkTitle = (name: string): string =>
  isPaperBenchmark(name) ? PAPER_BENCHMARKS[name] : name;

export function estimateValue(quantity: string, unit: Unit, { value, interval, seeds }: SeedEstimate): Value {
  return { quantity, value, unit, seeds, ...(interval !== null && interval) };
}

/** One evaluation's mean by itself. */
export const plainValue = (quantity: Quantity, value: number): Value => ({
  quantity: NAMES[quantity],
  value,
  unit: UNITS[quantity],
});

/** A share of right answers is none of more than all of them, however wide its interval. */
function boundedValue(quantity: Quantity, estimate: SeedEstimate): Value {
  const value = estimateValue(NAMES[quantity], UNITS[quantity], estimate);
  const { interval } = estimate;
  if (quantity !== 'accuracy' || interval === null) return value;
  return { ...value, low: Math.max(0, interval.low), high: Math.min(1, interval.high) };
}

/** The mean over the evaluations of a method's seeds. @param level of problems; null: all */
export function meanCell(
  evaluations: readonly Measured[],
  quantity: Quantity,
  level: string | null = null,
): Cell {
  if (evaluations.length === 0) return none;
  const rows = rowsOf(evaluations, quantity, level);
  if (rows !== null) return [boundedValue(quantity, overSeeds([rows], itself))];
  if (level !== null) return none;
  const value = evaluations.reduce((sum, one) => sum + one[quantity], 0) / evaluations.length;
  return [{ ...plainValue(quantity, value), seeds: evaluations.length }];
}

/**
 * The base model has no seeds: its answers in all runs are those of one model, so its interval is over problems.
 * @param evaluations of the base, one a run
 */
export function baseCell(
  evaluations: readonly Measured[],
  quantity: Quantity,
  level: string | null = null,
): Cell {
  if (evaluations.length === 0) return none;
  const rows = rowsOf(evaluations, quantity, level);
  if (rows === null) {
    if (level !== null) return none;
    const value = evaluations.reduce((sum, one) => sum + one[quantity], 0) / evaluations.length;
    return [plainValue(quantity, value)];
  }
  const mean = Float64Array.from(
    rows[0]!,
    (_, i) => rows.reduce((sum, row) => sum + row[i]!, 0) / rows.length,
  );
  const { value, interval } = overProblems([mean], itself);
  // The bootstrap's has no width where all answers are right.
  if (quantity === 'accuracy')
    return [{ ...plainValue(quantity, value), ...wilsonInterval(value * mean.length, mean.length) }];
  return [{ ...plainValue(quantity, value), ...interval }];
}
