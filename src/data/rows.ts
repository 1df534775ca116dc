/** What the file readers yield: rows in order, each with its position in the file. */
import { isRecord } from '../base/json';

/** A row that is not a valid problem. The caller knows its position and whether to skip it. */
export class BadRow extends Error {}

/**
 * A row of a file, or what is wrong with one that cannot be read. `number` counts from 1, as messages say it:
 * `problems.jsonl line 3`, `problems.parquet row 3`.
 */
export type SourceRow = { unit: 'line' | 'row'; number: number } & (
  { values: Record<string, unknown> } | { problem: string }
);

/** Rows in order. An error after which the file cannot be read throws. */
export type SourceRows = AsyncGenerator<SourceRow, void>;

/**
 * Picks the columns to read, for formats that know them before the first row. Throws BAD_INPUT with the
 * existing columns when a required one is missing.
 */
export type ColumnChoice = (columns: readonly string[]) => readonly string[];

/** A row from `value`, or what is wrong with it. */
export function objectRow(unit: SourceRow['unit'], number: number, value: unknown): SourceRow {
  if (isRecord(value)) return { unit, number, values: value };
  return { unit, number, problem: 'must be a JSON object' };
}

/** Maximum length of a row in characters. No problem is that long: the file is damaged, or a zip bomb. */
export const MAX_ROW_LENGTH = 1 << 24;
