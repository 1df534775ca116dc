/** Repeated measurements in turns, so that a slow minute of the machine falls on all of them alike. */

/** Over the repeats; the spread is part of every figure. */
export interface Spread {
  median: number;
  min: number;
  max: number;
}

export function spreadOf(values: readonly number[]): Spread {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return {
    median: sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2,
    min: sorted[0]!,
    max: sorted.at(-1)!,
  };
}

export const mapSpread = ({ median, min, max }: Spread, f: (value: number) => number): Spread => ({
  median: f(median),
  min: f(min),
  max: f(max),
});
