/** What the readers of files give: rows one after another, each with the place it came from. */
import { isRecord } from '../json';

/** A row of a file. `number` counts lines or rows from 1, as the reader's `unit` says. */
export type SourceRow =
  { number: number; values: Record<string, unknown> } | { number: number; problem: string };

export interface RowReader {
  /** What `number` counts: `problems.jsonl line 3`, `problems.parquet row 3`. */
  unit: 'line' | 'row';
  /** Rows in order. A row that cannot be read comes as `problem`; a file that cannot be read on throws. */
  rows(): AsyncGenerator<SourceRow, void>;
}

/**
 * Picks the columns to read, for formats that know them before the first row. Throws BAD_INPUT, naming the columns
 * there are, when a needed one is missing.
 */
export type ColumnChoice = (columns: readonly string[]) => readonly string[];

/** A row that is an object, or what is wrong with it. */
export function objectRow(number: number, value: unknown): SourceRow {
  if (isRecord(value)) return { number, values: value };
  return { number, problem: 'must be a JSON object' };
}

/** Of one row, in characters. Nobody's problem is so long: the file is damaged, or unzips to a text without an end. */
export const MAX_ROW_LENGTH = 1 << 24;
