/** Interleaves repeated measurements, so that a slow minute of the machine affects all of them alike. */

import { maximum, median, minimum } from '../base/statistics';

/** Statistics over the repeats; the spread is part of every figure. */
export interface Spread {
  median: number;
  min: number;
  max: number;
}

export const spreadOf = (values: readonly number[]): Spread => ({
  median: median(values),
  min: minimum(values),
  max: maximum(values),
});

export const mapSpread = ({ median, min, max }: Spread, f: (value: number) => number): Spread => ({
  median: f(median),
  min: f(min),
  max: f(max),
});
