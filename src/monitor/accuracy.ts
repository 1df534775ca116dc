/** What the monitor keeps of the accuracy of batches, and whether it fell. Plain JSON. */
import type { KnownMetrics } from '../metric-names';
import { largestFalls, type Fall } from './change';
import { withBlock, type History } from './history';
import { READ } from './names';
import { noiseOf, noNoise, SHARE, withNoise, type NoiseRecord } from './noise';

export interface AccuracyRecord {
  groups: number;
  history: History;
  noise: NoiseRecord;
}

export const noAccuracy = (): AccuracyRecord => ({ groups: 0, history: [], noise: noNoise() });

/** The shares of a batch. What its metrics lack is put so that it adds nothing to accuracy. */
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

/** A fall by at least so much, and by so many standard errors; null: it is not looked for. */
export type Least = { drop: number; excess: number } | null;

export interface Falls {
  /** Of accuracy, as a collapse and as a warning ask for it. */
  collapse: Fall | null;
  warning: Fall | null;
  /** Of the share of groups with a right answer. */
  anyRight: Fall | null;
}

const ACCURACY = [SHARE.accuracy, SHARE.withAllRight, SHARE.withAnyRight];
const NEVER = { drop: Infinity, excess: Infinity };

/** How far accuracy fell, and since when. @param fewest groups that a fall is found in */
export function accuracyFalls(
  record: AccuracyRecord,
  fewest: number,
  { collapse, warning, anyRight }: Readonly<Record<keyof Falls, Least>>,
): Falls {
  const found = largestFalls(record.history, noiseOf(record.noise), fewest, [
    { shares: ACCURACY, ...(collapse ?? NEVER) },
    { shares: ACCURACY, ...(warning ?? NEVER) },
    { shares: [SHARE.anyRight], ...(anyRight ?? NEVER) },
  ]);
  return { collapse: found[0]!, warning: found[1]!, anyRight: found[2]! };
}
