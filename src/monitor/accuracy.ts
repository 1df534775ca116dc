/** The monitor's record of batch accuracies, and whether they fell. Plain JSON. */
import type { KnownMetrics } from '../base/metric-names';
import type { MonitorSettings } from '../config';
import { largestFalls, type Fall, type Sought } from './change';
import { withBlock, type History } from './history';
import { READ } from './names';
import { noiseOf, noNoise, SHARE, withNoise, type NoiseRecord } from './noise';

export interface AccuracyRecord {
  groups: number;
  history: History;
  noise: NoiseRecord;
}

export const noAccuracy = (): AccuracyRecord => ({ groups: 0, history: [], noise: noNoise() });

/** The shares of a batch. Missing metrics get values that add nothing to accuracy. */
function sharesOf(metrics: KnownMetrics, accuracy: number): number[] {
  const allRight = metrics[READ.allCorrect] ?? accuracy;
  const anyRight = 1 - (metrics[READ.allWrong] ?? 1 - accuracy);
  return [accuracy, (accuracy + allRight) / 2, (accuracy + anyRight) / 2, anyRight];
}

/** The record with one more batch. */
export function withAccuracy(before: AccuracyRecord, metrics: KnownMetrics, groups: number): AccuracyRecord {
  const accuracy = metrics[READ.accuracy];
  if (accuracy === undefined || !(accuracy >= 0 && accuracy <= 1)) return before;
  const shares = sharesOf(metrics, accuracy);
  const {
    [READ.accuracySpread]: spread = null,
    [READ.allCorrect]: allRight,
    [READ.allWrong]: allWrong,
  } = metrics;
  const mixed = allRight === undefined || allWrong === undefined ? 1 : 1 - allRight - allWrong;
  return {
    groups: before.groups + groups,
    history: withBlock(before.history, [groups, ...shares.map((share) => groups * share)]),
    noise: withNoise(before.noise, { groups, shares, spread, mixed }),
  };
}

export interface Falls {
  /** The fall of accuracy, with the thresholds for a collapse and for a warning. */
  collapse: Fall | null;
  warning: Fall | null;
  /** The fall of the share of groups with a correct answer. */
  anyRight: Fall | null;
}

const ACCURACY = [SHARE.accuracy, SHARE.withAllRight, SHARE.withAnyRight];

/** A fall of at least this fraction and this many standard errors; null turns it off. */
const sought = (shares: readonly number[], drop: number | null, excess: number | null): Sought =>
  drop === null || excess === null ? { shares, drop: Infinity, excess: Infinity } : { shares, drop, excess };

/** How far accuracy fell, and since when; none without statistics. */
export function accuracyFalls(record: AccuracyRecord, settings: MonitorSettings): Falls {
  const found = largestFalls(record.history, noiseOf(record.noise), settings.spanGroups, [
    sought(ACCURACY, settings.collapseAccuracyDrop, settings.collapseZ),
    sought(ACCURACY, settings.warningAccuracyDrop, settings.warningZ),
    sought([SHARE.anyRight], settings.warningAllWrongRise, settings.warningZ),
  ]);
  return { collapse: found[0]!, warning: found[1]!, anyRight: found[2]! };
}
