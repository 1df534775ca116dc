/** How long a run's remaining steps will take. */
import { mean, median } from '../../base/statistics';

/** What the estimate needs of a finished step. */
export interface TimedStep {
  ms: number;
  /** Mean tokens of its completions; null if the step was refused before they were counted. */
  tokens: number | null;
}

/** Steps averaged for the current cost of a step; fewer than half of them say nothing of a trend. */
const RECENT_STEPS = 20;
/** A step that took longer than this multiple of the median was held up, e.g. by a sleeping laptop. */
const HELD_UP = 4;
/** No later step is expected to cost less or more than these multiples of a current one. */
const CHEAPEST = 0.2;
const DEAREST = 1.5;

const clamp = (value: number, low: number, high: number) => Math.min(high, Math.max(low, value));

/** The slope of the least-squares line through (x, y); 0 where x does not vary. */
function slopeOf(x: readonly number[], y: readonly number[]): number {
  const [middleX, middleY] = [mean(x), mean(y)];
  let covariance = 0;
  let variance = 0;
  for (const [i, value] of x.entries()) {
    covariance += (value - middleX) * (y[i]! - middleY);
    variance += (value - middleX) ** 2;
  }
  return variance < 1e-9 ? 0 : covariance / variance;
}

/**
 * Milliseconds for `left` more steps. The relative trend of completion lengths continues, fading over half as
 * many steps as it was seen in, and a step's cost follows its length by the power fitted to all steps so far.
 * @param steps the steps so far, in order; null is returned for none
 */
export function remainingMs(steps: readonly TimedStep[], left: number): number | null {
  if (steps.length === 0) return null;
  const recent = steps.slice(-RECENT_STEPS).map(({ ms }) => ms);
  const longest = HELD_UP * median(recent);
  const nowMs = mean(recent.map((ms) => Math.min(ms, longest)));
  const known = steps.filter(({ ms, tokens }) => ms > 0 && tokens !== null && tokens > 0);
  if (known.length < RECENT_STEPS / 2) return nowMs * left;
  const lengths = known.map(({ tokens }) => Math.log(tokens!));
  const power = clamp(
    slopeOf(
      lengths,
      known.map(({ ms }) => Math.log(ms)),
    ),
    0,
    2,
  );
  const seen = lengths.slice(-Math.max(RECENT_STEPS, Math.ceil(known.length / 2)));
  const trend = power * slopeOf([...seen.keys()], seen);
  const fading = seen.length / 2;
  let sum = 0;
  for (let k = 1; k <= left; k++) {
    // The recent steps are, on average, half their number back.
    const change = trend * (recent.length / 2 + fading * (1 - Math.exp(-k / fading)));
    sum += nowMs * clamp(Math.exp(change), CHEAPEST, DEAREST);
  }
  return sum;
}
