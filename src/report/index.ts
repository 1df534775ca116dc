/** `acoer report`: one HTML file about a run, or about several compared. */
import { join } from 'node:path';
import { AcoerError, whyUnreadable } from '../errors';
import { writeFileAtomic } from '../run';
import { grouped } from '../text';
import { packedCompletions } from './completions';
import { figureCsv, type Figure } from './figure';
import { pageHtml, type PageContent } from './page';
import { readRun, type RunData } from './run-data';
import { comparison } from './several';
import { reportOf, rewardName, sectionsOf, tilesOf, verdictOf, type RunReport } from './single';
import { standalone, toPng } from './svg';

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

function factsOf({ config, startedAt, name }: RunData): string[] {
  const started = `started ${startedAt.toISOString().slice(0, 16).replace('T', ' ')} UTC`;
  if (config === null) return [name, started];
  const model = config.model.split('/').slice(-2).join('/');
  return [name, model, `reward ${rewardName({ config } as RunData)}`, `seed ${config.seed}`, started];
}

async function single(report: RunReport): Promise<Omit<PageContent, 'completions' | 'title'>> {
  return {
    verdict: verdictOf(report),
    facts: factsOf(report.run),
    tiles: tilesOf(report),
    sections: sectionsOf(report),
    figures: [...report.dynamics.flatMap(({ figures }) => figures), ...report.figures],
  };
}

async function several(reports: readonly RunReport[]): Promise<Omit<PageContent, 'completions' | 'title'>> {
  const { sections, figures } = await comparison(reports);
  const steps = reports.reduce((sum, { run }) => sum + (run.lines.at(-1)?.step ?? 0), 0);
  return {
    verdict: `${reports.length} runs, ${grouped(steps)} steps.`,
    facts: reports.map(({ run }) => run.name),
    tiles: [],
    sections,
    figures,
  };
}

/**
 * @param paths folders of runs, finished or not
 * @throws BAD_INPUT if one is not a run, or naming a damaged file of it
 */
export async function makeReport(paths: readonly string[], { title }: ReportOptions = {}): Promise<Report> {
  const runs = paths.map(readRun);
  const reports: RunReport[] = [];
  for (const run of runs) reports.push(await reportOf(run));
  const content = reports.length === 1 ? await single(reports[0]!) : await several(reports);
  const heading = title ?? (runs.length === 1 ? runs[0]!.name : `${runs.length} runs compared`);
  const completions = await packedCompletions(runs, COMPLETION_BYTES);
  return { html: pageHtml({ ...content, title: heading, completions }), figures: content.figures };
}

/** Writes every figure as SVG, PNG and CSV into `folder`. @throws BAD_INPUT if it cannot be written */
export async function writeFigures(folder: string, figures: readonly Figure[]): Promise<void> {
  for (const figure of figures) {
    const png = await toPng(figure.svg);
    try {
      writeFileAtomic(join(folder, `${figure.id}.svg`), standalone(figure.svg));
      writeFileAtomic(join(folder, `${figure.id}.png`), png);
      writeFileAtomic(join(folder, `${figure.id}.csv`), figureCsv(figure));
    } catch (cause) {
      throw new AcoerError('BAD_INPUT', `Cannot write figures to ${folder}: ${whyUnreadable(cause)}`, {
        cause,
      });
    }
  }
}

export { shownCompletions } from './completions';
export { readRun, type RunData } from './run-data';
export { marksOf, type Mark } from './marks';
