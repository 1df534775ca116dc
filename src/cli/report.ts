/** `acoer report`: a run, or several compared, as one HTML file. */
import { Buffer } from 'node:buffer';
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Command } from 'commander';
import { badInput, whyUnreadable } from '../base/errors';
import { makeReport, writeFigures } from '../report';
import { writeFileAtomic } from '../run';
import { megabytes } from '../base/text';
import { path } from './command';
import { printableLine } from '../base/printable';
import { printNote, printText } from './output';

interface ReportFlags {
  out: string;
  figures?: string;
  title?: string;
}

export function define(command: Command): void {
  command
    .argument('<run...>', 'folders of runs; several are compared')
    .option('--out <file>', 'the HTML file to write', path, 'report.html')
    .option('--figures <folder>', 'also write every figure there as SVG, PNG and CSV', path)
    .option('--title <text>', "heading of the page (default: the run's name)")
    .action(report);
}

async function report(runs: string[], { out, figures: folder, title }: ReportFlags): Promise<void> {
  const { html, figures } = await makeReport(runs, { title });
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
