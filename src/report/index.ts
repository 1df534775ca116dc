/** `acoer report`: one HTML file about a run, or about several compared. */
import { needList, needString } from '../base/border';
import { join, resolve, sep } from 'node:path';
import { badInput, badUsage, whyUnreadable } from '../base/errors';
import { writeFileAtomic } from '../run';
import { grouped } from '../base/text';
import { comparisonAnswer } from './answer';
import { packedCompletions } from './completions';
import { figureCsv, type Figure } from './figure';
import { pageHtml, type PageContent } from './page';
import { readRun, type RunData } from './run-data';
import { comparison } from './several';
import { partsOf, reportOf, rewardName, tilesOf, verdictOf, type RunReport } from './single';
import { standalone, toPng } from '../drawing/svg';

export interface ReportOptions {
  /** Heading of the page. Default: the run's name, or how many runs are compared. */
  title?: string;
}

export interface Report {
  html: string;
  figures: readonly Figure[];
}

/** Packed completions may take this much of a report, which is to stay under 3 MB. */
const COMPLETION_BYTES = 1_400_000;

function factsOf({ config, sft, startedAt, name }: RunData): string[] {
  const started = `started ${startedAt.toISOString().slice(0, 16).replace('T', ' ')} UTC`;
  const settings = config ?? sft;
  if (settings === null) return [name, started];
  const model = settings.model.split('/').slice(-2).join('/');
  const seed = `seed ${settings.seed}`;
  const method = config === null ? 'supervised fine-tuning' : `reward ${rewardName(config)}`;
  return [name, model, method, seed, started];
}

type Content = Omit<PageContent, 'completions' | 'title'>;

async function single(report: RunReport): Promise<Content> {
  const facts = factsOf(report.run);
  return { verdict: verdictOf(report), facts, tiles: tilesOf(report), ...(await partsOf(report)) };
}

async function several(reports: readonly RunReport[]): Promise<Content> {
  const steps = reports.reduce((sum, { run }) => sum + (run.lines.at(-1)?.step ?? 0), 0);
  return {
    verdict: comparisonAnswer(reports) ?? `${reports.length} runs, ${grouped(steps)} steps.`,
    facts: [...reports.map(({ run }) => run.name), `${grouped(steps)} steps in all`],
    tiles: [],
    ...(await comparison(reports)),
  };
}

/** Runs in folders of the same name are called by the folder above as well. */
function named(runs: readonly RunData[]): RunData[] {
  const twice = ({ name }: RunData) => runs.filter((run) => run.name === name).length > 1;
  return runs.map((run) => (twice(run) ? { ...run, name: longName(run.directory.path) } : run));
}

const longName = (path: string): string => resolve(path).split(sep).slice(-2).join(sep);

function refuseTwice(paths: readonly string[]): void {
  const all = paths.map((path) => resolve(path));
  const again = paths.find((_, i) => all.indexOf(all[i]!) !== i);
  if (again !== undefined) throw badInput(`${again} is given twice; name each run once.`);
}

/** @throws BAD_CONFIG for a comparison with a supervised run, which is measured by other numbers */
function refuseMixed(runs: readonly RunData[]): void {
  const supervised = runs.length > 1 ? runs.find(({ sft }) => sft !== null) : undefined;
  if (supervised === undefined) return;
  throw badUsage(
    `${supervised.directory.path} is a run of acoer sft, and runs of acoer train are compared by other numbers: name it alone.`,
  );
}

/**
 * @param paths folders of runs, finished or not
 * @throws BAD_CONFIG for a supervised run among several; BAD_INPUT if one is not a run or is given twice, or naming a damaged file of it
 */
export async function makeReport(paths: readonly string[], { title }: ReportOptions = {}): Promise<Report> {
  needList('the runs of makeReport()', paths);
  paths.forEach((path, i) => needString(`runs[${i}]`, path));
  refuseTwice(paths);
  const runs = named(paths.map(readRun));
  refuseMixed(runs);
  const reports = await Promise.all(runs.map((run) => reportOf(run)));
  const content = reports.length === 1 ? await single(reports[0]!) : await several(reports);
  const heading = title ?? (runs.length === 1 ? runs[0]!.name : `${runs.length} runs compared`);
  const supervised = runs.every(({ sft }) => sft !== null);
  const completions = supervised ? null : await packedCompletions(runs, COMPLETION_BYTES);
  return { html: pageHtml({ ...content, title: heading, completions }), figures: content.figures };
}

/** Writes every figure as SVG, PNG and CSV into `folder`. @throws BAD_INPUT if it cannot be written */
export async function writeFigures(folder: string, figures: readonly Figure[]): Promise<void> {
  needString('folder', folder);
  needList('figures', figures);
  for (const figure of figures) {
    const png = await toPng(figure.svg);
    try {
      writeFileAtomic(join(folder, `${figure.id}.svg`), standalone(figure.svg));
      writeFileAtomic(join(folder, `${figure.id}.png`), png);
      writeFileAtomic(join(folder, `${figure.id}.csv`), figureCsv(figure));
    } catch (cause) {
      throw badInput(`Cannot write figures to ${folder}: ${whyUnreadable(cause)}`, cause);
    }
  }
}

export { shownCompletions } from './completions';
export { readRun, type RunData } from './run-data';
export { PARETO_VALUES, paretoSvg, type ParetoPoint } from './evaluation-figures';
export { figuresHtml, shortNumber, type Figure } from './figure';
export { markup, type Html } from './html';
export { pageHtml } from './page';
export { dynamicsFigures, dynamicsHtml, type Method } from './several';
export { reportOf, type Section } from './single';
export { numberTable } from './tables';
export { pageFile } from './page-files';
