/** Which runs collapsed: by the paper's criterion on their evaluations, and by their own guard. */
import type { Config } from '../config';
import { monitorSettings } from '../monitor';
import { maximum } from '../base/statistics';
import { HEALTH, type StepMetrics } from '../base/types';
import type { Measured } from './measured';
import type { SweepRun } from './folder';

/**
 * The ACOER paper, section 4 ("Diagnosing Reward Collapse"): "a training regime is considered collapsed when the mean
 * reasoning tokens fall below a task-dependent threshold (e.g., 500 tokens for MATH-500) and accuracy degrades by at
 * least 5% from its peak for >= 200 consecutive steps". The 5% are points of accuracy, as the guard reads them, too.
 */
export const CRITERION = { accuracyDrop: 0.05, steps: 200, math500Tokens: 500 } as const;

/** Of a share of problems. */
const ROUNDING = 1e-9;

export interface Collapse {
  /** First step at which it was seen; null: there was none. */
  onset: number | null;
  /** Whether the run is long enough to show one: its evaluations after the base's span the criterion's steps. */
  decidable: boolean;
}

/**
 * The criterion on a run's evaluations: all in a row that span at least 200 steps have short thinking and accuracy
 * below the highest so far, the base's included.
 * @param evaluations in step order, the base's first @param threshold mean thinking tokens
 */
export function paperCollapse(evaluations: readonly Measured[], threshold: number): Collapse {
  const trained = evaluations.filter(({ step }) => step > 0);
  const decidable = trained.length > 1 && trained.at(-1)!.step - trained[0]!.step >= CRITERION.steps;
  let [peak, since] = [-Infinity, null as number | null];
  for (const { step, accuracy, thinkingTokens } of evaluations) {
    peak = Math.max(peak, accuracy);
    const low = thinkingTokens < threshold && accuracy <= peak - CRITERION.accuracyDrop + ROUNDING;
    since = low ? (since ?? step) : null;
    if (since !== null && step - since >= CRITERION.steps) return { onset: since, decidable };
  }
  return { onset: null, decidable };
}

/**
 * Whether a run ends as far below its highest evaluation, the base's included, as the criterion asks, whatever its
 * length: rewards that press wrong answers to be longer lose accuracy without thinking less.
 * @param evaluations in step order; null: none after the base's
 */
export function endsLow(evaluations: readonly Measured[]): boolean | null {
  const last = evaluations.at(-1);
  if (last === undefined || last.step === 0) return null;
  const peak = maximum(evaluations.map(({ accuracy }) => accuracy));
  return last.accuracy <= peak - CRITERION.accuracyDrop + ROUNDING;
}

/**
 * The criterion's threshold for a run: the paper's for MATH-500, elsewhere the one that the run's own guard was given
 * (`monitor.collapseThinkingTokens`, or `collapseThinkingRatio` of the base's thinking).
 * @returns null: the run's guard has neither, or the base was not evaluated
 */
export function thresholdOf(
  benchmark: string,
  { monitor }: Pick<Config, 'monitor'>,
  base: Measured | undefined,
): number | null {
  const { collapseThinkingTokens: tokens, collapseThinkingRatio: ratio } = monitorSettings(monitor);
  if (tokens !== null) return tokens;
  if (benchmark === 'math500') return CRITERION.math500Tokens;
  return ratio === null || base === undefined ? null : ratio * base.thinkingTokens;
}

const COLLAPSED = HEALTH.indexOf('collapsed');

/** The step at which the run's guard first reported a collapse; null: it did not. */
export function guardOnset(run: Pick<SweepRun, 'collapsed'>, lines: readonly StepMetrics[]): number | null {
  const first = lines.find((line) => line['monitor/state'] === COLLAPSED)?.step;
  return first ?? (run.collapsed ? (lines.at(-1)?.step ?? null) : null);
}
