/** A figure of a report: its drawing, its data, and its place in the page. */
import { markup, Html } from './html';

export type Cell = number | string | null;

export interface Figure {
  /** Unique in the report; names its files. */
  id: string;
  title: string;
  svg: string;
  /** What was drawn, one row a point. */
  table: { columns: readonly string[]; rows: readonly (readonly Cell[])[] };
  /** A sentence under it. */
  caption?: string;
  wide?: boolean;
}

export const figureHtml = ({ id, title, svg, caption, wide }: Figure): Html =>
  markup`<figure id="${id}" ${wide ? markup` class="wide"` : null}>
    <div class="figure-head">
      <h3>${title}</h3>
      <span class="figure-tools" hidden
        >${(['svg', 'png', 'csv'] as const).map(
          (kind) =>
            markup`<button
              type="button"
              data-save="${kind}"
              aria-label="Save ${title} as ${kind.toUpperCase()}"
            >
              ${kind.toUpperCase()}
            </button>`,
        )}</span
      >
    </div>
    ${new Html(svg)}
    <figcaption>${caption ?? ''}<span class="readout"></span></figcaption>
  </figure>`;

export const figuresHtml = (figures: readonly Figure[]): Html =>
  markup`<div class="figures">${figures.map(figureHtml)}</div>`;

const csvCell = (cell: Cell): string => {
  const text = cell === null ? '' : String(cell);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

/** The figure's data as CSV (RFC 4180, but lines end as Unix's do). */
export const figureCsv = ({ table: { columns, rows } }: Figure): string =>
  [columns, ...rows].map((row) => `${row.map(csvCell).join(',')}\n`).join('');

/** Six digits are more than a figure shows; a report carries many of them. */
export const shortNumber = (value: number): number => Number(value.toPrecision(6));
