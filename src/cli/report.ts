/** `acoer report`: a run, several compared, or a sweep, as one HTML file; a sweep's tables as text. */
import { Buffer } from 'node:buffer';
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { Option, type Command } from 'commander';
import { badInput, badUsage, whyUnreadable } from '../base/errors';
import { makeReport, writeFigures } from '../report';
import { writeFileAtomic } from '../run';
import { megabytes } from '../base/text';
import { isEvalFolder } from '../sweep/eval-folders';
import { isSweep } from '../sweep/folder';
import { FORMATS, renderTables, type TableFormat } from '../sweep/render';
import { makeSweepReport, sweepTables, writeTables } from '../sweep/tables-files';
import { path } from './command';
import { printableLine } from '../base/printable';
import { printNote, printText } from './output';

interface ReportFlags {
  out?: string;
  figures?: string;
  title?: string;
  paper?: boolean;
  format?: TableFormat;
}

export function define(command: Command): void {
  command
    .argument('<run...>', 'folders of runs, several are compared; or of a sweep, with folders of acoer eval')
    .option(
      '--out <file>',
      'the HTML file to write (default: report.html; of a sweep, that in its folder)',
      path,
    )
    .option('--figures <folder>', 'also write every figure there as SVG, PNG and CSV', path)
    .option('--title <text>', "heading of the page (default: the run's name)")
    .option('--paper', "print a sweep's tables, those of the paper first, and write nothing")
    .addOption(new Option('--format <format>', 'of --paper (default: md)').choices(FORMATS))
    .action(report);
}

/** The sweep among the paths, if there is one. @throws BAD_CONFIG if it comes with runs or with another sweep */
function sweepOf(paths: readonly string[]): string | null {
  const sweep = paths.find(isSweep) ?? null;
  if (sweep === null) return null;
  const other = paths.find((one) => one !== sweep && !isEvalFolder(one));
  if (other === undefined) return sweep;
  throw badUsage(
    `${other} cannot be reported on together with the sweep ${sweep}: name a sweep alone, or with folders of acoer eval --out.`,
  );
}

function checkFlags({ out, figures, title, paper, format }: ReportFlags, sweep: string | null): void {
  if (paper === true && sweep === null) {
    throw badUsage('--paper prints the tables of a sweep: name the folder of one (it has a sweep.json).');
  }
  if (format !== undefined && paper !== true) throw badUsage('--format goes with --paper; add it.');
  if (paper === true && (out ?? figures ?? title) !== undefined) {
    throw badUsage('--paper prints and writes no page: remove --out, --figures and --title.');
  }
}

async function printTables(sweep: string, more: readonly string[], format: TableFormat): Promise<void> {
  const { results, tables } = await sweepTables(sweep, more);
  results.notes.forEach((note) => printNote(printableLine(note, 400)));
  printText(renderTables(tables, format).trimEnd());
}

async function report(paths: string[], flags: ReportFlags): Promise<void> {
  const sweep = sweepOf(paths);
  checkFlags(flags, sweep);
  const more = paths.filter((one) => one !== sweep);
  if (sweep === null) return page(await makeReport(paths, flags), flags);
  if (flags.paper === true) return printTables(sweep, more, flags.format ?? 'md');
  const { out, figures, title } = flags;
  if (more.length === 0 && (out ?? figures ?? title) === undefined) {
    await writeTables(sweep, (message) => printNote(printableLine(message, 400)));
    return printText(`report ${sweep}/report.html, tables ${sweep}/table.md, table.csv and table.tex`);
  }
  const own = { ...flags, out: out ?? `${sweep}/report.html` };
  await page(await makeSweepReport(sweep, { title, evaluations: more }), own);
}

async function page(
  { html, figures }: Awaited<ReturnType<typeof makeReport>>,
  { out = 'report.html', figures: folder }: ReportFlags,
): Promise<void> {
  const made = dirname(out);
  const isNew = !existsSync(made);
  try {
    writeFileAtomic(out, html);
  } catch (cause) {
    throw badInput(`Cannot write ${out}: ${whyUnreadable(cause)}`, cause);
  }
  if (isNew) printNote(`made the folder ${printableLine(made)}`);
  printText(`report ${out} (${megabytes(Buffer.byteLength(html))}, ${figures.length} figures)`);
  if (folder === undefined) return;
  await writeFigures(folder, figures);
  printText(`figures ${folder}`);
}
