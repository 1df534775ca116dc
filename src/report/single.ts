/** The sections of a report on one run. */
import { grouped, percent } from '../base/text';
import type { Comparison } from '../eval';
import { runVerdict, withPublishedNames } from '../train';
import type { Config } from '../config';
import { chosenPairs, pairsHtml } from './before-after';
import { compareAnswers, evaluationsOf, kindName, type BeforeAfter } from './evaluations';
import { figuresHtml, type Figure } from './figure';
import { markup, type Html } from './html';
import { marksOf } from './marks';
import type { RunData } from './run-data';
import { dynamicsOf, evaluationFigures, stepValues } from './run-figures';
import {
  allSettingsHtml,
  changeCell,
  configurationHtml,
  correctnessHtml,
  levelsHtml,
  marksHtml,
  numberTable,
  pCell,
  pointsCell,
  tokens,
} from './tables';
import type { StepValues } from './time-figure';

export interface Section {
  id: string;
  title: string;
  content: Html;
}

/** A figure of the header: what it is, its value, and what it was before. */
export interface Tile {
  name: string;
  value: string;
  note: Html | string | null;
}

const tile = (name: string, value: string, note: Tile['note'] = null): Tile => ({ name, value, note });

export interface RunReport {
  run: RunData;
  evaluations: readonly BeforeAfter[];
  values: StepValues;
}

/** @param withAnswers false: only the figures of its evaluations */
export async function reportOf(run: RunData, withAnswers = true): Promise<RunReport> {
  const evaluations = await evaluationsOf(run, withAnswers);
  return { run, evaluations, values: stepValues(run, evaluations) };
}

const STATE: Readonly<Record<RunData['state'], string>> = {
  finished: 'Finished',
  running: 'Still running',
  stopped: 'Stopped; it can be resumed',
  killed: 'Killed; it can be resumed',
};

/** How far a supervised run has come. */
function lossChange({ lines }: RunData): string {
  const [first, last] = [lines[0]?.loss, lines.at(-1)?.loss];
  if (first === undefined || last === undefined) return '';
  return ` The loss of a completion token went from ${first.toFixed(4)} in the first step to ${last.toFixed(4)} in the last.`;
}

/** One sentence on how the run ended or where it is. */
export function verdictOf({ run }: RunReport): string {
  const last = run.lines.at(-1)?.step ?? 0;
  const verdict = run.summary === null ? null : runVerdict(run.summary, run.lines);
  if (verdict !== null) return verdict.sentence;
  const maxSteps = (run.config ?? run.sft)?.maxSteps ?? null;
  const of = maxSteps === null ? '' : ` of ${grouped(maxSteps)}`;
  return `${STATE[run.state]}, after step ${grouped(last)}${of}.${run.sft === null ? '' : lossChange(run)}`;
}

export const rewardName = ({ reward }: Config): string =>
  [reward]
    .flat()
    .map((one) => (typeof one === 'string' ? one : one.name))
    .join(' + ');

const capitalised = (text: string): string => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;

function hours(seconds: number): string {
  if (seconds < 120) return `${seconds.toFixed(0)} s`;
  return seconds < 7200 ? `${(seconds / 60).toFixed(0)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

function evaluationTiles({ kind, base, trained, change }: BeforeAfter): Tile[] {
  const of = kindName(kind);
  const length = markup`was ${tokens(base.thinkingTokens)},
      ${changeCell(base.thinkingTokens, trained.thinkingTokens)}`;
  const accuracy = markup`was ${percent(base.accuracy)}, ${pointsCell(change.difference, change.interval)} points`;
  return [
    tile(`Thinking tokens, ${of}`, tokens(trained.thinkingTokens), length),
    tile(`Accuracy, ${of}`, percent(trained.accuracy), accuracy),
  ];
}

function sftTiles({ lines }: RunData): Tile[] {
  const [first, last] = [lines[0], lines.at(-1)];
  const heldOut = lines.findLast((line) => line['eval/loss'] !== undefined);
  if (first?.loss === undefined || last?.loss === undefined) return [];
  const tiles = [
    tile('Loss per completion token', last.loss.toFixed(4), `was ${first.loss.toFixed(4)}`),
    tile('Tokens', grouped(last.num_tokens ?? 0), 'of prompts and completions'),
  ];
  if (heldOut === undefined) return tiles;
  const after = `after step ${grouped(heldOut.step ?? 0)}`;
  return tiles.toSpliced(1, 0, tile('Loss on held-out examples', heldOut['eval/loss']!.toFixed(4), after));
}

export function tilesOf({ run, evaluations }: RunReport): Tile[] {
  const seconds = run.lines.reduce((sum, line) => sum + (line.step_time ?? 0), 0);
  const last = run.lines.at(-1);
  const own = run.sft === null ? evaluations.slice(0, 2).flatMap(evaluationTiles) : sftTiles(run);
  if (own.length === 0 && last !== undefined && run.sft === null) {
    own.push(
      tile('Accuracy in training', percent(last['accuracy/mean'] ?? NaN)),
      tile('Thinking tokens in training', tokens(last['thinking/mean'] ?? NaN)),
    );
  }
  return [
    ...own,
    tile('Steps', grouped(last?.step ?? 0), `${hours(seconds)} of training`),
    ...(run.sft === null ? [tile('Rollbacks', String(run.rollbacks.length))] : []),
    ...run.accepted.map(({ step, files }) =>
      tile('Another reward file', `from step ${grouped(step + 1)}`, files.join('; ')),
    ),
  ];
}

function evaluationSection({ evaluations }: RunReport, figures: readonly Figure[]): Html {
  if (evaluations.length === 0) {
    return markup`<p>The run has not evaluated a model before and after training yet.</p>`;
  }
  const sections = evaluations.map((one) => {
    const own = figures.filter(({ id }) => id.endsWith(`-${one.kind}`));
    const levels = Object.keys(one.base.perLevel).length > 0 ? levelsHtml(one) : null;
    return markup`<h3>${capitalised(kindName(one.kind))}, ${one.trained.n} problems</h3>
<p>Accuracy per 1,000 tokens: ${one.base.accuracyPer1kTokens.toFixed(1)} points before, ${one.trained.accuracyPer1kTokens.toFixed(1)} after.</p>
${levels}${correctnessHtml(one)}${testsHtml(one)}
${figuresHtml(own)}`;
  });
  return markup`${sections}`;
}

/** Whether the differences are more than chance, on the same problems. */
function testsHtml({ change, answers }: BeforeAfter): Html {
  const compared = compareAnswers(answers?.base, answers?.trained);
  const tokenRow = (name: string, figure: Comparison['totalTokens']) => [
    name,
    pointsCell(figure.change, figure.changeInterval),
    pCell(figure.p),
  ];
  return numberTable(
    'Differences with 95% intervals; p by the exact McNemar test for accuracy, by the paired bootstrap for tokens',
    ['difference', 'after - before', 'p'],
    [
      ['accuracy, points', pointsCell(change.difference, change.interval), pCell(change.p)],
      ...(compared === null ? [] : [tokenRow('thinking tokens, %', compared.thinkingTokens)]),
      ...(compared === null ? [] : [tokenRow('all tokens, %', compared.totalTokens)]),
    ],
  );
}

export async function answersSection({ run, evaluations }: RunReport): Promise<Html> {
  // Greedy answers do not depend on luck.
  const shown =
    evaluations.find(({ kind, answers }) => kind === 'greedy' && answers !== null) ??
    evaluations.find(({ answers }) => answers !== null);
  if (shown === undefined) return markup`<p>The run kept no answers of its evaluations.</p>`;
  const pairs = await pairsHtml(chosenPairs(shown), run.directory.promptTemplate());
  return markup`<p class="muted">
      ${capitalised(kindName(shown.kind))}. Lines of the thinking that training removed are marked.
    </p>
    ${pairs}`;
}

function settingsHtml({ config, configProblem, sft }: RunData): Html {
  if (sft !== null) return allSettingsHtml(sft);
  if (config === null) return markup`<p>The settings cannot be read by this version: ${configProblem}</p>`;
  return configurationHtml(withPublishedNames(config));
}

/** All of a report on one run; a supervised run has no answers, evaluations of them, or monitor. */
export async function partsOf(report: RunReport): Promise<{ sections: Section[]; figures: Figure[] }> {
  const { run } = report;
  const groups = await dynamicsOf(run, report.values);
  const evaluated = (await Promise.all(report.evaluations.map(evaluationFigures))).flat();
  const section = (id: string, title: string, content: Html): Section => ({ id, title, content });
  const dynamics = groups.map(({ title, figures }) =>
    section(title.toLowerCase().replaceAll(/\W+/g, '-'), title, figuresHtml(figures)),
  );
  const figures = [...groups.flatMap((group) => group.figures), ...evaluated];
  const configuration = section('configuration', 'Configuration', settingsHtml(run));
  if (run.sft !== null) return { figures, sections: [...dynamics, configuration] };
  const marks = marksOf(run.lines, run.rollbacks);
  const sections = [
    section('answers', 'The same problems, before and after', await answersSection(report)),
    ...dynamics,
    section('evaluations', 'Evaluations', evaluationSection(report, evaluated)),
    section('events', 'What happened', marksHtml(marks)),
    configuration,
  ];
  return { figures, sections };
}
