/** The report of a sweep and the files of its tables. */
import { join } from 'node:path';
import { AcoerError, badInput, errorCode, errorMessage, whyUnwritten } from '../base/errors';
import { contaminationLines } from '../data';
import { writeFileAtomic } from '../run';
import { claimsOf, type Claim } from './claims';
import { comparisonsOf } from './comparisons';
import { benchmarksTable, collapseTable, comparisonsTable, runsTable } from './other-tables';
import { sweepPage } from './page';
import { FORMATS, renderTables } from './render';
import { readResults, type SweepResults } from './results';
import type { Table } from './table';
import { levelsTable, mainTable, rewardsTable, trajectoryTables } from './tables';
import type { Figure } from '../report';

/** All tables of a sweep, those of the paper first, and what its runs say of the paper's claims. */
export interface SweepTables {
  results: SweepResults;
  tables: Table[];
  claims: Claim[];
}

/**
 * @param more folders of `acoer eval` besides those in the sweep's `evals/`
 * @throws BAD_INPUT if `path` is no sweep, or naming a damaged file
 */
export async function sweepTables(path: string, more: readonly string[] = []): Promise<SweepTables> {
  const results = await readResults(path, more);
  const comparisons = comparisonsOf(results);
  const tables = [
    rewardsTable(results),
    ...trajectoryTables(results),
    mainTable(results, comparisons),
    levelsTable(results),
    collapseTable(results),
    comparisonsTable(comparisons),
    benchmarksTable(results.evaluated),
    runsTable(results),
  ].filter((table) => table !== null);
  return { results, tables, claims: claimsOf(results, comparisons) };
}

const configsOf = ({ methods }: SweepResults) =>
  methods.flatMap(({ runs }) => runs.flatMap(({ data }) => data?.config ?? []));

export interface SweepReportOptions {
  /** Heading of the page. Default: the sweep's name. */
  title?: string;
  /** Folders of `acoer eval` besides those in the sweep's `evals/`. */
  evaluations?: readonly string[];
}

/** The report as one HTML page. @throws BAD_INPUT as `sweepTables`; MISSING_PACKAGE if nothing can be drawn */
export async function makeSweepReport(
  path: string,
  { title, evaluations }: SweepReportOptions = {},
): Promise<{ html: string; figures: readonly Figure[] }> {
  const made = await sweepTables(path, evaluations);
  return sweepPage(made, await contaminationLines(configsOf(made.results)), title);
}

function write(path: string, content: string): void {
  try {
    writeFileAtomic(path, content);
  } catch (cause) {
    throw badInput(`Cannot write ${path}: ${whyUnwritten(cause)}`, cause);
  }
}

/**
 * Writes table.md, table.csv, table.tex and report.html into the sweep's folder.
 * @param warn of runs that are left out, and of a page that cannot be drawn
 * @throws BAD_INPUT if `sweepPath` is no sweep or cannot be written
 */
export async function writeTables(sweepPath: string, warn: (message: string) => void): Promise<void> {
  const made = await sweepTables(sweepPath);
  made.results.notes.forEach(warn);
  for (const format of FORMATS) write(join(sweepPath, `table.${format}`), renderTables(made.tables, format));
  try {
    const { html } = await sweepPage(made, await contaminationLines(configsOf(made.results)));
    write(join(sweepPath, 'report.html'), html);
  } catch (error) {
    if (!(error instanceof AcoerError) || errorCode(error) !== 'MISSING_PACKAGE') throw error;
    warn(`The tables are written, but not report.html: ${errorMessage(error)}`);
  }
}
