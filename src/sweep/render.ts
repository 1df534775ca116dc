/** Tables as Markdown, CSV and LaTeX. */
import { cellText, numberText, rangeText, type Cell, type Column, type Table, type Value } from './table';

export const FORMATS = ['md', 'csv', 'tex'] as const;
export type TableFormat = (typeof FORMATS)[number];

/** Neighbouring columns of one group, in order. */
function groupsOf(columns: readonly Column[]): { group: string | undefined; from: number; count: number }[] {
  const groups: { group: string | undefined; from: number; count: number }[] = [];
  for (const [i, { group }] of columns.entries()) {
    const last = groups.at(-1);
    if (last !== undefined && last.group === group && group !== undefined) last.count++;
    else groups.push({ group, from: i, count: 1 });
  }
  return groups;
}

const markdownText = (text: string): string =>
  text
    .replaceAll(/[\\`*_|<>#~]|(?<=\])\(/g, String.raw`\$&`)
    .replaceAll(/\s+/g, ' ')
    .trim();

/** Markdown in the way of GitHub; a heading over columns becomes a part of their names. */
export function markdownTable({ title, columns, blocks, notes }: Table): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  const names = columns.map(({ name, group }) =>
    markdownText(group === undefined ? name : `${group}: ${name}`),
  );
  const rows = blocks.flat().map((row) => line(row.map((cell) => markdownText(cellText(cell)))));
  const rule = line(columns.map((_, i) => (i === 0 ? '---' : '---:')));
  const below = notes.flatMap((note) => ['', markdownText(note)]);
  return `### ${markdownText(title)}\n\n${[line(names), rule, ...rows, ...below].join('\n')}\n`;
}

const CSV_COLUMNS = ['table', 'row', 'column', 'quantity', 'value', 'low', 'high', 'seeds', 'text'];

const csvCell = (value: string | number | undefined): string => {
  const text = value === undefined || Number.isNaN(value) ? '' : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

/** One line for each number, or for the text of a cell without one. Fractions stay fractions. */
export function csvLines(table: Table): string {
  const { id, columns, blocks, keys = 1 } = table;
  return blocks
    .flat()
    .flatMap((row) => {
      const name = row.slice(0, keys).map(cellText).join(', ');
      return row.flatMap((cell, i) => {
        const { name: own, group } = columns[i]!;
        const column = group === undefined ? own : `${group}: ${own}`;
        const values = cell.filter((part): part is Value => typeof part !== 'string');
        const text = cellText(cell);
        const at = [id, name, column];
        if (values.length === 0) return i < keys ? [] : [[...at, '', '', '', '', '', text]];
        return values.map(({ quantity, value, low, high, seeds }) => [
          ...at,
          quantity,
          ...[value, low, high, seeds].map((one) => (Number.isNaN(one) ? undefined : one)),
          text,
        ]);
      });
    })
    .map((cells) => `${cells.map(csvCell).join(',')}\n`)
    .join('');
}

const TEX_LETTERS: Readonly<Record<string, string>> = {
  '\\': String.raw`\textbackslash{}`,
  '{': String.raw`\{`,
  '}': String.raw`\}`,
  $: String.raw`\$`,
  '&': String.raw`\&`,
  '#': String.raw`\#`,
  _: String.raw`\_`,
  '%': String.raw`\%`,
  '~': String.raw`\textasciitilde{}`,
  '^': String.raw`\textasciicircum{}`,
  '<': '$<$',
  '>': '$>$',
  '|': '$|$',
  '"': "''",
  '†': String.raw`$^\dagger$`,
  '‡': String.raw`$^\ddagger$`,
  '§': String.raw`$^\S$`,
  '*': String.raw`$\cdot$`,
  '∗': '$^*$',
  '−': '$-$',
  '–': '--',
  '·': String.raw`$\cdot$`,
  '≤': String.raw`$\le$`,
  '≥': String.raw`$\ge$`,
  α: String.raw`$\alpha$`,
  β: String.raw`$\beta$`,
};

/** Text for LaTeX; letters outside ASCII that it may not know become question marks. */
export const texText = (text: string): string =>
  Array.from(text.replaceAll(/\s+/g, ' '), (letter) => {
    const known = TEX_LETTERS[letter];
    if (known !== undefined) return known;
    return letter >= ' ' && letter <= '~' ? letter : '?';
  }).join('');

const texCell = (cell: Cell): string =>
  cell
    .map((part) => {
      if (typeof part === 'string') return texText(part);
      const range = rangeText(part);
      const small = range === '' ? '' : ` {\\scriptsize ${texText(range)}}`;
      return `${texText(numberText(part.value, part.unit))}${small}`;
    })
    .join('')
    .trim();

/** The headings over columns and the lines under them. */
function texGroups(columns: readonly Column[]): string[] {
  if (columns.every(({ group }) => group === undefined)) return [];
  const groups = groupsOf(columns);
  const cells = groups.map(({ group, count }) =>
    group === undefined ? '' : String.raw`\multicolumn{${count}}{c}{${texText(group)}}`,
  );
  const rules = groups
    .filter(({ group }) => group !== undefined)
    .map(({ from, count }) => String.raw`\cmidrule(lr){${from + 1}-${from + count}}`);
  return [String.raw`${cells.join(' & ')} \\`, rules.join(' ')];
}

/** Columns of text are on the left, of numbers on the right; formulas and reasons may break their lines. */
function texAlignment(table: Table): string {
  return table.columns
    .map((_, i) => {
      const cells = table.blocks.flat().map((row) => row[i]!);
      if (cells.some((cell) => cellText(cell).length > 60)) return 'p{6cm}';
      return i > 0 && cells.some((cell) => cell.some((part) => typeof part !== 'string')) ? 'r' : 'l';
    })
    .join('');
}

/** A table float with booktabs; one that is wider than the text is made smaller. */
export function texTable(table: Table): string {
  const { id, title, columns, blocks, notes } = table;
  // After \\ a bracket or a star would be its argument.
  const row = (cells: readonly string[]) => String.raw`${cells.join(' & ').replace(/^(?=[[*])/, '{}')} \\`;
  const rows = blocks.map((block) => block.map((cells) => row(cells.map(texCell))).join('\n'));
  const caption = texText([`${title.replace(/^Table \d+: /, '')}.`, ...notes].join(' '));
  return [
    String.raw`\begin{table*}[t]`,
    String.raw`\centering`,
    String.raw`\small`,
    String.raw`\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%`,
    String.raw`\begin{tabular}{${texAlignment(table)}}`,
    String.raw`\toprule`,
    ...texGroups(columns),
    row(columns.map(({ name }) => texText(name))),
    String.raw`\midrule`,
    rows.join(`\n${String.raw`\midrule`}\n`),
    String.raw`\bottomrule`,
    String.raw`\end{tabular}}`,
    String.raw`\caption{${caption}}`,
    String.raw`\label{tab:${id}}`,
    String.raw`\end{table*}`,
    '',
  ].join('\n');
}

const TEX_HEAD = '% Needs \\usepackage{booktabs} and \\usepackage{graphicx}.\n';

/** Several tables as one file. */
export function renderTables(tables: readonly Table[], format: TableFormat): string {
  switch (format) {
    case 'md':
      return tables.map(markdownTable).join('\n');
    case 'csv':
      return `${CSV_COLUMNS.join(',')}\n${tables.map(csvLines).join('')}`;
    case 'tex':
      return `${TEX_HEAD}\n${tables.map(texTable).join('\n')}`;
  }
}
