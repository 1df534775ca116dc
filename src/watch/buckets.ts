/**
 * Columns of numbers over steps, thinned so that a figure of any run stays quick to send and to draw. Steps are
 * put into buckets of equal width, a power of two that doubles when there are too many; a bucket keeps the mean,
 * the smallest and the largest value, so no spike is lost. Part of the page, so it imports nothing at run time.
 */

/** With two points a bucket, about 1,000 points a line; a figure has fewer pixels. */
export const MOST_BUCKETS = 640;

interface Bucket {
  sum: number;
  count: number;
  min: number;
  max: number;
}

/** A bucket without values is a hole. */
type Column = (Bucket | undefined)[];

function merge(column: Column, index: number, { sum, count, min, max }: Bucket): void {
  const bucket = (column[index] ??= { sum: 0, count: 0, min: Infinity, max: -Infinity });
  bucket.sum += sum;
  bucket.count += count;
  bucket.min = Math.min(bucket.min, min);
  bucket.max = Math.max(bucket.max, max);
}

/** `min` and `max` are left out in buckets of one step, where they equal the mean. */
export interface WireColumn {
  mean: (number | null)[];
  count?: number[];
  min?: (number | null)[];
  max?: (number | null)[];
}

export interface WireBuckets {
  /** Steps of a bucket. Bucket i holds the steps from (start + i) * width on. */
  width: number;
  start: number;
  length: number;
  columns: Record<string, WireColumn>;
}

/** To six digits, which are more than a figure can show. Several times as fast as `toPrecision`. */
export function rounded(value: number): number {
  const exponent = 5 - Math.floor(Math.log10(Math.abs(value)));
  // 0, and numbers whose power of ten is no number.
  if (!Number.isFinite(exponent) || Math.abs(exponent) > 290) return value;
  const power = 10 ** Math.abs(exponent);
  return exponent >= 0 ? Math.round(value * power) / power : Math.round(value / power) * power;
}

export class Buckets {
  private readonly columns = new Map<string, Column>();
  /** Buckets from the first one to the last with a value. */
  length = 0;

  /**
   * @param width steps of a bucket, a power of two
   * @param start index of the first bucket, counted from step 0
   */
  constructor(
    public width = 1,
    public start = 0,
    private readonly most = MOST_BUCKETS,
  ) {}

  /** Whether any step has a value. */
  has(metric: string): boolean {
    return this.columns.has(metric);
  }

  /** Whether a step is in one of the buckets that there may be, without coarser ones. */
  holds(step: number): boolean {
    return Math.floor(step / this.width) - this.start < this.most;
  }

  /** Adds numbers of a step; steps before the first bucket are ignored. */
  add(step: number, values: Iterable<readonly [string, number]>): void {
    while (!this.holds(step)) this.coarsen();
    const index = Math.floor(step / this.width) - this.start;
    if (index < 0) return;
    this.length = Math.max(this.length, index + 1);
    for (const [metric, value] of values) {
      let column = this.columns.get(metric);
      if (column === undefined) this.columns.set(metric, (column = []));
      merge(column, index, { sum: value, count: 1, min: value, max: value });
    }
  }

  /** Makes every bucket twice as wide. */
  coarsen(): void {
    const begin = Math.floor(this.start / 2);
    for (const [metric, column] of this.columns) {
      const merged: Column = [];
      column.forEach((bucket, i) => {
        if (bucket !== undefined) merge(merged, Math.floor((this.start + i) / 2) - begin, bucket);
      });
      this.columns.set(metric, merged);
    }
    this.length = this.length === 0 ? 0 : Math.floor((this.start + this.length - 1) / 2) - begin + 1;
    this.start = begin;
    this.width *= 2;
  }

  /** A bucket's mean and bounds; null: no value. @param index from 0, `start` is the first */
  at(metric: string, index: number): { mean: number; min: number; max: number } | null {
    const bucket = this.columns.get(metric)?.[index];
    if (bucket === undefined) return null;
    const { sum, count, min, max } = bucket;
    return { mean: sum / count, min, max };
  }

  wire(): WireBuckets {
    const columns: Record<string, WireColumn> = {};
    const { width, start, length } = this;
    for (const [metric, column] of this.columns) {
      const all = Array.from(column);
      const values = (of: (bucket: Bucket) => number) =>
        all.map((bucket) => (bucket === undefined ? null : rounded(of(bucket))));
      const mean = values(({ sum, count }) => sum / count);
      const count = all.map((bucket) => bucket?.count ?? 0);
      columns[metric] =
        width === 1
          ? { mean }
          : { mean, count, min: values(({ min }) => min), max: values(({ max }) => max) };
    }
    return { width, start, length, columns };
  }

  static from({ width, start, length, columns }: WireBuckets, most = MOST_BUCKETS): Buckets {
    const made = new Buckets(width, start, most);
    made.length = length;
    for (const [metric, { mean: means, count, min, max }] of Object.entries(columns)) {
      const column = means.map((mean, i): Bucket | undefined => {
        const n = count?.[i] ?? 1;
        return mean === null
          ? undefined
          : { sum: mean * n, count: n, min: min?.[i] ?? mean, max: max?.[i] ?? mean };
      });
      made.columns.set(metric, column);
    }
    return made;
  }
}

/** The narrowest width in which the steps `from` to `to` fit into `most` buckets. */
export function fittingWidth(from: number, to: number, most = MOST_BUCKETS): number {
  let width = 1;
  while (Math.floor(to / width) - Math.floor(from / width) >= most) width *= 2;
  return width;
}
