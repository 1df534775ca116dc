/** Replays a recorded run, or any file of metrics, through the collapse monitor. */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { parseAssignments, resolveConfig, type Config, type ConfigInput } from '../config';
import { AcoerError, whyUnreadable } from '../base/errors';
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
import { namedMetrics, type NamedMetrics } from './foreign-metrics';
import { monitorContext } from './guard';

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
    throw new AcoerError('BAD_INPUT', `Cannot read ${path}: ${whyUnreadable(cause)}`, { cause });
  }
}

/** The monitor's settings: those stored with the run, overridden by `set`. */
function settingsOf(stored: ConfigInput, set: readonly string[]) {
  const given = parseAssignments(set);
  const other = Object.keys(given).find((name) => name !== 'monitor');
  if (other !== undefined) {
    throw new AcoerError(
      'BAD_CONFIG',
      `${other} is not a setting of the monitor; its settings are monitor.<name>.`,
    );
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
    throw new AcoerError('BAD_INPUT', `${run.config()} has no ${odd}: the run is damaged.`);
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
    throw new AcoerError(
      'BAD_CONFIG',
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
