/** Plain-text tables. */
import { maximum } from '../base/statistics';

type Rows = readonly (readonly string[])[];

const widthsOf = (rows: Rows): number[] =>
  (rows[0] ?? []).map((_, column) => maximum(rows.map((row) => row[column]!.length)));

/** Columns padded to their widest cell: the first `leftColumns` are left-aligned, the rest right-aligned. */
export function alignTable(rows: Rows, leftColumns = 1): string[] {
  const widths = widthsOf(rows);
  return rows.map((row) =>
    row
      .map((cell, i) => (i < leftColumns ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!)))
      .join('  ')
      .trimEnd(),
  );
}

/** An aligned table with a rule below its header. */
export function formatTable(rows: Rows, leftColumns = 1): string {
  const rule = widthsOf(rows)
    .map((width) => '-'.repeat(width))
    .join('  ');
  return alignTable(rows, leftColumns).toSpliced(1, 0, rule).join('\n');
}
