/** The report of `acoer data` as text. */
import { grouped } from '../base/text';
import type { DataReport, ExampleRow, Lengths } from './data-report';
import { formatTable } from './table';
import { maximum } from '../base/statistics';

const BAR_WIDTH = 40;
const MAX_SHOWN = 5;
/** Levels with a line of their own; a data set with more of them has something else in that column. */
const MAX_LEVELS = 40;

/** `text` on one line, shortened to `width`. */
function short(text: string, width = 100): string {
  const line = text.replaceAll('\n', '↵');
  return line.length > width ? `${line.slice(0, width - 1)}…` : line;
}

function sourceLines(report: DataReport): string[] {
  const { files = [], split, pinned, rows } = report;
  return [
    `${report.name}: ${grouped(report.problems)} problems${rows === undefined ? '' : ` of ${grouped(rows)} rows`}`,
    ...files.map((file) => `  ${file}`),
    ...(split === undefined || split === null ? [] : [`  split ${split}`]),
    ...(pinned === undefined || pinned === null ? [] : [`  pinned to these rows: ${pinned}`]),
  ];
}

function splitLines({ training, evaluation = 0, notices = [] }: DataReport): string[] {
  if (training === undefined) return [...notices];
  const counts = `a run would train on ${grouped(training)} problems and evaluate on ${evaluation === 0 ? 'none' : grouped(evaluation)}`;
  return [counts, ...notices];
}

function examplesOf(total: number, shown: readonly string[]): string[] {
  const lines = shown.slice(0, MAX_SHOWN).map((line) => `  ${line}`);
  return total > lines.length ? [...lines, `  and ${grouped(total - lines.length)} more`] : lines;
}

function leftOutLines({ badRows, unparsedGold, otherLevels }: DataReport, goldDropped: boolean): string[] {
  const lines: string[] = [];
  if (badRows !== undefined && badRows.count > 0) {
    lines.push(`unreadable rows: ${grouped(badRows.count)}`);
    lines.push(
      ...examplesOf(
        badRows.count,
        badRows.examples.map((text) => short(text, 160)),
      ),
    );
  }
  if (otherLevels !== undefined && otherLevels > 0) lines.push(`of other levels: ${grouped(otherLevels)}`);
  if (unparsedGold !== undefined) {
    const fate =
      unparsedGold.count === 0
        ? ''
        : goldDropped
          ? ', left out'
          : ', kept, but no answer to them counts as correct';
    lines.push(`gold answers the verifier cannot parse: ${grouped(unparsedGold.count)}${fate}`);
    const shown = unparsedGold.examples.map(({ at, gold }) => `${at}: ${gold === '' ? 'none' : short(gold)}`);
    lines.push(...examplesOf(unparsedGold.count, shown));
  }
  return lines;
}

function levelLines({ levels, problems }: DataReport): string[] {
  const named = Object.entries(levels);
  if (named.length === 0) return ['levels: none'];
  const rest = problems - named.reduce((sum, [, n]) => sum + n, 0);
  const shown = named.slice(0, MAX_LEVELS);
  const rows = rest > 0 ? [...shown, ['none', rest] as const] : shown;
  const table = formatTable([['level', 'problems'], ...rows.map(([level, n]) => [level, grouped(n)])]);
  const more = named.length - shown.length;
  return [...table.split('\n'), ...(more > 0 ? [`and ${grouped(more)} more levels`] : [])];
}

function lengthLines(title: string, lengths: Lengths, problems: number): string[] {
  const { unit, measured, min, mean, median, p95, p99, max, histogram } = lengths;
  const most = maximum(histogram.map((bin) => bin.count));
  const of = measured < problems ? ` (of ${grouped(measured)} problems, evenly spread)` : '';
  const labels = histogram.map(({ from, to }) => (from === to ? String(from) : `${from}-${to}`));
  const width = maximum(labels.map((label) => label.length));
  return [
    `${title}, ${unit}${of}: min ${min}, mean ${mean.toFixed(1)}, median ${median}, 95% ${p95}, 99% ${p99}, max ${max}`,
    ...histogram.map(({ count: n }, i) => {
      const bar = '█'.repeat(Math.ceil((BAR_WIDTH * n) / most));
      return `  ${labels[i]!.padStart(width)}  ${bar.padEnd(BAR_WIDTH)}  ${grouped(n)}`.trimEnd();
    }),
  ];
}

function exampleLines({ row, id, level, gold, prompt, ids, tokens }: ExampleRow): string[] {
  const marks = [`id ${id}`, ...(level === null ? [] : [`level ${level}`])].join(', ');
  const pieces = tokens?.map((token) => token.replaceAll('\n', '↵')).join('|');
  return [
    `--- problem ${row} (${marks}), gold answer: ${gold === null ? 'none' : short(gold)}`,
    prompt.trimEnd(),
    ...(ids === null ? [] : [`${grouped(ids.length)} tokens: ${pieces}`]),
  ];
}

/** @param goldDropped whether problems without a readable gold answer were left out */
export function reportText(report: DataReport, goldDropped: boolean, maxPromptLength: number | null): string {
  const blocks = [
    sourceLines(report),
    splitLines(report),
    leftOutLines(report, goldDropped),
    levelLines(report),
    lengthLines('prompts', report.promptLengths, report.problems),
    report.tooLong === null
      ? []
      : [`longer than maxPromptLength = ${maxPromptLength}: ${grouped(report.tooLong)}, skipped in training`],
    lengthLines('gold answers', report.goldLengths, report.problems),
    ...report.examples.map(exampleLines),
  ];
  return `${blocks
    .filter((lines) => lines.length > 0)
    .map((lines) => lines.join('\n'))
    .join('\n\n')}\n`;
}
