/** The evaluations between the steps, which decide about a collapse where there are any. Plain JSON. */
import type { KnownMetrics } from '../base/metric-names';
import { percent } from '../base/text';
import { deviationsBelow } from './change';
import { drop, thinkingShort, type Known } from './conditions';
import { EVALUATED } from './names';

export interface EvaluationRecord {
  /** The highest accuracy of an evaluation so far. */
  best: { step: number; accuracy: number } | null;
  /** Number of consecutive evaluations, up to the last, with the signs of a collapse. */
  low: number;
  /** Why the last ones are a collapse, or null if they are not. */
  collapse: string | null;
}

export const NO_EVALUATIONS: EvaluationRecord = { best: null, low: 0, collapse: null };

/** A dip that is gone by the next evaluation is no collapse. The paper's 200 steps are one interval. */
const IN_A_ROW = 2;

/**
 * The record after one more line of metrics. A collapse is an accuracy below the best so far (including the
 * base's) by more than the noise of two evaluations of that many problems, with short thinking, twice in a
 * row.
 */
export function withEvaluation(
  before: EvaluationRecord,
  metrics: KnownMetrics,
  known: Omit<Known, 'falls'>,
): EvaluationRecord {
  const { settings, context } = known;
  const { evaluations, base } = context;
  if (evaluations === null || settings.collapseZ === null) return before;
  const names = EVALUATED[evaluations.kind];
  const { step, [names.accuracy]: accuracy, [names.thinking]: thinking } = metrics;
  if (accuracy === undefined || !Number.isFinite(accuracy)) return before;
  const best = before.best ?? (base && { step: 0, accuracy: base.accuracy });
  if (best === null || accuracy >= best.accuracy)
    return { ...NO_EVALUATIONS, best: { step: step!, accuracy } };
  const { problems } = evaluations;
  const deviations = deviationsBelow([problems, best.accuracy], [problems, accuracy], 1);
  const fell = best.accuracy - accuracy >= settings.collapseAccuracyDrop && deviations >= settings.collapseZ;
  const short = fell ? thinkingShort(known, thinking ?? null) : null;
  if (short === null) return { ...NO_EVALUATIONS, best };
  const low = before.low + 1;
  if (low < IN_A_ROW) return { best, low, collapse: null };
  const whose = best.step === 0 ? "the base's" : `that of step ${best.step}`;
  const below = `${drop(best.accuracy, accuracy, deviations)} below ${whose}`;
  const last = `the ${evaluations.kind} one has ${percent(accuracy)} correct, ${below}`;
  const collapse = `Collapse: accuracy is low in ${low} evaluations in a row: ${last}, and ${short}.`;
  return { best, low, collapse };
}
