/**
 * Columns of numbers over steps, thinned so that a figure of any run stays quick to send and to draw. Steps are
 * put into buckets of equal width, a power of two that doubles when there are too many; a bucket keeps the mean,
 * the smallest and the largest value, so no spike is lost. Part of the page, so it imports nothing at run time.
 */

/** With two points a bucket, about 1,000 points a line; a figure has fewer pixels. */
export const MOST_BUCKETS = 640;

interface Column {
  sum: number[];
  count: number[];
  min: number[];
  max: number[];
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

const shown = (values: number[], count: number[]): (number | null)[] =>
  values.map((value, i) => (count[i] === 0 ? null : rounded(value)));

export class Buckets {
  private readonly columns = new Map<string, Column>();
  private buckets = 0;

  /**
   * @param width steps of a bucket, a power of two
   * @param start index of the first bucket, counted from step 0
   */
  constructor(
    private steps = 1,
    private first = 0,
    private readonly most = MOST_BUCKETS,
  ) {}

  get width(): number {
    return this.steps;
  }

  get start(): number {
    return this.first;
  }

  get length(): number {
    return this.buckets;
  }

  get metrics(): string[] {
    return [...this.columns.keys()];
  }

  /** Whether a step is in one of the buckets that there may be, without coarser ones. */
  holds(step: number): boolean {
    return Math.floor(step / this.steps) - this.first < this.most;
  }

  /** Adds numbers of a step; steps before the first bucket are ignored. */
  add(step: number, values: Iterable<readonly [string, number]>): void {
    while (!this.holds(step)) this.coarsen();
    const index = Math.floor(step / this.steps) - this.first;
    if (index < 0) return;
    this.buckets = Math.max(this.buckets, index + 1);
    for (const [metric, value] of values) {
      let column = this.columns.get(metric);
      if (column === undefined) {
        column = { sum: [], count: [], min: [], max: [] };
        this.columns.set(metric, column);
      }
      for (let i = column.count.length; i <= index; i++) {
        column.sum[i] = 0;
        column.count[i] = 0;
        column.min[i] = Infinity;
        column.max[i] = -Infinity;
      }
      column.sum[index]! += value;
      column.count[index]! += 1;
      column.min[index] = Math.min(column.min[index]!, value);
      column.max[index] = Math.max(column.max[index]!, value);
    }
  }

  /** Makes every bucket twice as wide. */
  coarsen(): void {
    const begin = Math.floor(this.first / 2);
    for (const column of this.columns.values()) {
      const merged: Column = { sum: [], count: [], min: [], max: [] };
      column.count.forEach((count, i) => {
        const to = Math.floor((this.first + i) / 2) - begin;
        merged.sum[to] = (merged.sum[to] ?? 0) + column.sum[i]!;
        merged.count[to] = (merged.count[to] ?? 0) + count;
        merged.min[to] = Math.min(merged.min[to] ?? Infinity, column.min[i]!);
        merged.max[to] = Math.max(merged.max[to] ?? -Infinity, column.max[i]!);
      });
      Object.assign(column, merged);
    }
    this.buckets = this.buckets === 0 ? 0 : Math.floor((this.first + this.buckets - 1) / 2) - begin + 1;
    this.first = begin;
    this.steps *= 2;
  }

  /** A bucket's mean and bounds; null: no value. @param index from 0, `start` is the first */
  at(metric: string, index: number): { mean: number; min: number; max: number } | null {
    const column = this.columns.get(metric);
    const count = column?.count[index] ?? 0;
    if (column === undefined || count === 0) return null;
    return { mean: column.sum[index]! / count, min: column.min[index]!, max: column.max[index]! };
  }

  wire(): WireBuckets {
    const columns: Record<string, WireColumn> = {};
    for (const [metric, { sum, count, min, max }] of this.columns) {
      const mean = shown(
        sum.map((value, i) => value / count[i]!),
        count,
      );
      columns[metric] =
        this.steps === 1 ? { mean } : { mean, count, min: shown(min, count), max: shown(max, count) };
    }
    return { width: this.steps, start: this.first, length: this.buckets, columns };
  }

  static from({ width, start, length, columns }: WireBuckets, most = MOST_BUCKETS): Buckets {
    const made = new Buckets(width, start, most);
    made.buckets = length;
    for (const [metric, { mean, count, min, max }] of Object.entries(columns)) {
      const counts = count ?? mean.map((value) => (value === null ? 0 : 1));
      made.columns.set(metric, {
        sum: mean.map((value, i) => (value ?? 0) * counts[i]!),
        count: [...counts],
        min: (min ?? mean).map((value) => value ?? Infinity),
        max: (max ?? mean).map((value) => value ?? -Infinity),
      });
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
