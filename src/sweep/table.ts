/** A table as data: every number with its interval or its seeds, whatever it is rendered as. */

/** `points` and `change` have a sign; fractions are shown in percent. */
export type Unit = 'percent' | 'points' | 'change' | 'tokens' | 'rate' | 'p' | 'count';

export interface Value {
  /** What it is, for the column of a file: `accuracy`, `thinking_tokens`. */
  quantity: string;
  value: number;
  unit: Unit;
  /** A 95% interval. */
  low?: number;
  high?: number;
  /** Number of seeds it is a mean over; shown where there is no interval. */
  seeds?: number;
}

/** Marks are short texts after a value: `†`. */
export type Cell = readonly (string | Value)[];

export interface Column {
  name: string;
  /** Neighbours of one group have a heading over them. */
  group?: string;
}

export interface Table {
  /** For file names and the column of a CSV file. */
  id: string;
  title: string;
  columns: readonly Column[];
  /** How many columns, from the left, name a row. Default: 1. */
  keys?: number;
  /** Rows in blocks, with a line between them. */
  blocks: readonly (readonly (readonly Cell[])[])[];
  /** Sentences under it. */
  notes: readonly string[];
}

const NONE = '–';

const sign = (text: string, value: number): string => (value > 0 ? `+${text}` : text.replace('-', '−'));

/** A number in the digits of its unit; a missing one is a dash. */
export function numberText(value: number, unit: Unit): string {
  if (!Number.isFinite(value)) return NONE;
  switch (unit) {
    case 'percent':
      return (100 * value).toFixed(1);
    case 'points':
      return sign((100 * value).toFixed(1), value);
    case 'change':
      return sign(`${(100 * value).toFixed(0)}%`, value);
    case 'tokens':
      return value >= 1000 ? Math.round(value).toLocaleString('en-US') : value.toFixed(value < 100 ? 1 : 0);
    case 'rate':
      return value.toFixed(1);
    case 'p':
      return value < 0.001 ? '<0.001' : value.toFixed(3);
    case 'count':
      return String(value);
  }
}

/** `[86.1, 90.3]`, or how many seeds there are where that is no interval; empty: neither is known. */
export function rangeText({ unit, low, high, seeds }: Value): string {
  if (low !== undefined && high !== undefined && !Number.isNaN(low + high))
    return `[${numberText(low, unit)}, ${numberText(high, unit)}]`;
  if (seeds === undefined) return '';
  return seeds === 1 ? '(1 seed)' : `(${seeds} seeds)`;
}

/** A cell as plain text. */
export const cellText = (cell: Cell): string =>
  cell
    .map((part) => {
      if (typeof part === 'string') return part;
      return [numberText(part.value, part.unit), rangeText(part)].filter((text) => text !== '').join(' ');
    })
    .join('');

export const text = (content: string): Cell => [content];
export const none: Cell = [NONE];
