/** Replays a recorded run, or any file of metrics, through the collapse monitor. */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { parseAssignments, resolveConfig, type Config, type ConfigInput } from '../config';
import { badInput, badUsage, unreadable } from '../base/errors';
import { isRecord } from '../base/json';
import {
  bareContext,
  initialMonitorState,
  monitorSettings,
  observe,
  READ,
  type HealthChange,
  type MonitorContext,
  type MonitorSettings,
} from '../monitor';
import { readAnyMetrics, readRunDirectory, type RunDirectory } from '../run';
import type { KnownMetrics, MetricName } from '../base/metric-names';
import type { Evaluation } from '../life/events';
import { monitorContext } from './guard';

/** Names in the file that stand for ours. */
export interface NamedMetrics {
  accuracy?: string;
  thinking?: string;
}

type Line = Readonly<Record<string, number | undefined>> & { step?: number };

/** Names that TRL logs; a reward's mean has the name of its function. */
const TRL_ACCURACY = 'rewards/accuracy_reward/mean';
const TRL_ACCURACIES = /^rewards\/[^/]*accuracy[^/]*\/mean$/i;
/** Trackers put this before the names of training. */
const PREFIX = /^train\//;

const SHOWN_NAMES = 20;

/** All names in the lines, in the order of their first appearance. */
const namesIn = (lines: readonly Line[]): string[] => [
  ...new Set(lines.flatMap((line) => Object.keys(line)).filter((name) => name !== 'step')),
];

function shownNames(names: readonly string[]): string {
  if (names.length === 0) return 'it has no numbers';
  const more = names.length > SHOWN_NAMES ? ` and ${names.length - SHOWN_NAMES} more` : '';
  return `it has ${names.slice(0, SHOWN_NAMES).join(', ')}${more}`;
}

/** The name of the share of right answers, or null. */
function accuracyName(path: string, names: readonly string[], given: string | undefined): string | null {
  if (given !== undefined) return needed(path, names, given, '--accuracy');
  const known = [READ.accuracy, TRL_ACCURACY].find((name) => names.includes(name));
  if (known !== undefined) return known;
  const like = names.filter((name) => TRL_ACCURACIES.test(name));
  if (like.length > 1)
    throw badInput(`${path} has ${like.join(' and ')}: name one of them with --accuracy NAME.`);
  return like[0] ?? null;
}

function needed(path: string, names: readonly string[], name: string, flag: string): string {
  const plain = name.replace(PREFIX, '');
  if (names.includes(plain)) return plain;
  throw badInput(`${path} has no ${name} (${flag}); ${shownNames(names)}.`);
}

/** @throws BAD_INPUT for values that are no shares */
function checkShares(path: string, lines: readonly Line[], name: string): void {
  const wrong = lines.find((line) => line[name] !== undefined && !(line[name] >= 0 && line[name] <= 1));
  if (wrong === undefined) return;
  throw badInput(
    `${path} has ${name} = ${wrong[name]} in step ${wrong.step}, which is no share of right answers (0 to 1): name another metric with --accuracy NAME.`,
  );
}

/** Lines without names of their own that the monitor reads tell it nothing: evaluations, summaries of a training. */
const tells = (line: KnownMetrics): boolean =>
  Object.values(READ).some((name) => name !== READ.step && name !== READ.tokens && line[name] !== undefined);

/** The steps from one line to the next, as most lines have it: TRL averages over `logging_steps`. */
function usualGap(lines: readonly Line[]): number {
  const counts = new Map<number, number>();
  for (const [i, { step }] of lines.entries()) {
    const gap = step! - (lines[i - 1]?.step ?? 0);
    if (gap > 0) counts.set(gap, (counts.get(gap) ?? 0) + 1);
  }
  return [...counts].sort(([, a], [, b]) => b - a)[0]?.[0] ?? 1;
}

export interface ReadMetrics {
  lines: KnownMetrics[];
  notices: string[];
  /** Steps that each line is about. */
  stepsPerLine: number;
}

/**
 * The lines of a file of metrics under our names. Accuracy may be TRL's accuracy reward, and where thinking is not
 * measured the length of completions stands in for it; both are said.
 * @throws BAD_INPUT when neither accuracy nor thinking can be told
 */
export function namedMetrics(path: string, read: readonly Line[], given: NamedMetrics = {}): ReadMetrics {
  const plain = read.map((line) => {
    const entries = Object.entries(line).map(([name, value]) => [name.replace(PREFIX, ''), value] as const);
    return Object.fromEntries(entries);
  });
  const names = namesIn(plain);
  const accuracy = accuracyName(path, names, given.accuracy);
  const own = names.includes(READ.thinking) ? READ.thinking : null;
  const measured = given.thinking === undefined ? own : needed(path, names, given.thinking, '--thinking');
  const thinking = measured ?? (names.includes(READ.length) ? READ.length : null);
  if (accuracy === null && thinking === null) {
    throw badInput(
      `${path} has neither accuracy nor thinking: nothing can be judged; ${shownNames(names)}. Name what they are with --accuracy NAME and --thinking NAME.`,
    );
  }
  if (accuracy !== null) checkShares(path, plain, accuracy);
  const lines = plain.map((line) => renamed(line, accuracy, thinking)).filter(tells);
  const notices: string[] = [];
  if (accuracy !== null && accuracy !== READ.accuracy) notices.push(`${accuracy} is taken as accuracy.`);
  if (measured === null && thinking !== null) {
    notices.push(`No ${READ.thinking}: ${thinking}, which counts the answers too, stands in for it.`);
  } else if (thinking !== null && thinking !== READ.thinking) {
    notices.push(`${thinking} is taken as thinking.`);
  }
  const stepsPerLine = usualGap(lines);
  if (stepsPerLine > 1) {
    notices.push(`Lines are ${stepsPerLine} steps apart: each is taken as the mean of so many batches.`);
  }
  return { lines, notices, stepsPerLine };
}

function renamed(line: Line, accuracy: string | null, thinking: string | null): KnownMetrics {
  const metrics: Partial<Record<MetricName, number>> = { ...(line as KnownMetrics) };
  if (accuracy !== null) metrics[READ.accuracy] = line[accuracy];
  if (thinking !== null) metrics[READ.thinking] = line[thinking];
  // A length that stands in for thinking leaves none for the answer.
  if (thinking === READ.length) delete metrics[READ.length];
  return metrics;
}

export interface WatchOptions extends NamedMetrics {
  /** Prompts per generated batch; required for a file, and known for a run. */
  groups?: number;
  /** Settings that override those of the run, as `monitor.<name>=<value>`. */
  set?: readonly string[];
}

export interface Watched {
  /** Every change of the monitor's state, as the run would have reported it. */
  changes: HealthChange[];
  /** One sentence for each thing that was missing, with its consequence. */
  notices: string[];
  lines: number;
  /** What it was judged by, if not by everything: accuracy or thinking is missing. */
  only: 'accuracy' | 'thinking' | null;
  /** Why nothing was judged at all, in a sentence; null: something was. */
  unjudged: string | null;
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch (cause) {
    throw unreadable(path, cause);
  }
}

/** The monitor's settings: those stored with the run, overridden by `set`. */
function settingsOf(stored: ConfigInput, set: readonly string[]) {
  const given = parseAssignments(set);
  const other = Object.keys(given).find((name) => name !== 'monitor');
  if (other !== undefined) {
    throw badUsage(`${other} is not a setting of the monitor; its settings are monitor.<name>.`);
  }
  const { monitor } = stored;
  return monitorSettings(resolveConfig([monitor === undefined ? {} : { monitor }, given]).monitor);
}

/** The evaluation of the base model: from the summary, or from the newest checkpoint of a run without one. */
function baseOf(run: RunDirectory): Evaluation | null {
  const step = run.checkpointSteps().at(-1);
  const files = [run.summary(), ...(step === undefined ? [] : [join(run.checkpoint(step), 'state.json')])];
  for (const file of files) {
    const found = statSync(file, { throwIfNoEntry: false }) && run.readJson(file);
    const base = isRecord(found) && isRecord(found.base) ? (found.base as unknown as Evaluation) : null;
    if (base?.sampled || base?.greedy) return base;
  }
  return null;
}

function runContext(run: RunDirectory, config: Config, lines: readonly KnownMetrics[], notices: string[]) {
  const odd = (['promptsPerStep', 'stepsPerGeneration', 'numIterations'] as const).find(
    (name) => !Number.isSafeInteger(config[name]),
  );
  if (odd !== undefined) {
    throw badInput(`${run.config()} has no ${odd}: the run is damaged.`);
  }
  const base = baseOf(run);
  if (base === null) {
    notices.push('No evaluation of the base model is recorded: the first batches are used instead.');
    const evaluated = lines.some((line) => Object.keys(line).some((name) => name.startsWith('eval/')));
    if (evaluated) notices.push(UNCOUNTED);
  }
  return monitorContext(config, base);
}

const UNCOUNTED =
  'The number of problems per evaluation is not recorded: the training batches are used instead.';

function fileContext(groups: number | undefined, lines: readonly KnownMetrics[], notices: string[]) {
  if (groups === undefined) {
    throw badUsage(
      'A file of metrics does not say how many prompts a batch has: give their number with --groups N, or give the folder of the run.',
    );
  }
  const first = (name: string) => lines.some((line) => name in line);
  if (first('eval/sampled_accuracy') || first('eval/greedy_accuracy')) notices.push(UNCOUNTED);
  return bareContext(groups);
}

/** Metrics that the monitor reads, and what is lost without each. */
const USES: readonly (readonly [name: MetricName, lost: string])[] = [
  [READ.accuracy, 'falls in accuracy are not detected'],
  [READ.thinking, 'the length of thinking is unknown'],
  [READ.allCorrect, 'groups that are all right give no evidence'],
  [READ.allWrong, 'groups that are all wrong give no evidence'],
  [READ.brevity, 'whether brevity still pays is unknown'],
];

function missing(lines: readonly KnownMetrics[]): string[] {
  const has = (name: MetricName) => lines.some((line) => line[name] !== undefined);
  const notices = USES.filter(([name]) => !has(name)).map(([name, lost]) => `No ${name}: ${lost}.`);
  if (has(READ.answer)) return notices;
  const estimated = has(READ.length) && has(READ.thinking);
  return [
    ...notices,
    estimated
      ? `No ${READ.answer}: ${READ.length} minus ${READ.thinking} is used instead.`
      : `No ${READ.answer}: reasoning outside the thinking is not detected.`,
  ];
}

/** In how many lines it is, where it is not in all of them. */
function sparse(lines: readonly KnownMetrics[]): string[] {
  return [READ.accuracy, READ.thinking].flatMap((name) => {
    const count = lines.filter((line) => line[name] !== undefined).length;
    return count === 0 || count === lines.length ? [] : [`${name} is in ${count} of ${lines.length} lines.`];
  });
}

const tooShort = (path: string, groups: number, { spanGroups }: MonitorSettings): string | null =>
  groups >= spanGroups
    ? null
    : `${path} has ${groups} groups (prompts) so far, and nothing is judged before ${spanGroups} (monitor.spanGroups).`;

/**
 * Feeds the monitor the metrics in a run's folder, or in a file with one JSON object per line.
 * @throws BAD_INPUT for what cannot be read or judged, BAD_CONFIG for a file without `groups` and for settings that
 * are not the monitor's
 */
export function watchRecorded(path: string, { groups, set = [], ...named }: WatchOptions = {}): Watched {
  const run = isFolder(path) ? readRunDirectory(path) : null;
  const stored = (run?.trainSettings() ?? {}) as ConfigInput;
  const settings = settingsOf(stored, set);
  const file = run?.metrics() ?? path;
  const { lines, notices, stepsPerLine } = namedMetrics(file, readAnyMetrics(file), named);
  let context: MonitorContext =
    run === null ? fileContext(groups, lines, notices) : runContext(run, stored as Config, lines, notices);
  if (groups !== undefined) context = { ...context, groupsPerBatch: groups };
  if (run === null) context = { ...context, groupsPerBatch: context.groupsPerBatch * stepsPerLine };
  notices.push(...missing(lines), ...sparse(lines));
  const changes: HealthChange[] = [];
  let state = initialMonitorState();
  for (const line of lines) {
    const seen = observe(state, line, settings, context);
    state = seen.state;
    if (seen.change !== null) changes.push(seen.change);
  }
  const has = (name: MetricName) => lines.some((line) => line[name] !== undefined);
  const only = !has(READ.accuracy) ? 'thinking' : has(READ.thinking) ? null : 'accuracy';
  const unjudged = tooShort(file, state.averages.groups, settings);
  return { changes, notices, lines: lines.length, only, unjudged };
}
