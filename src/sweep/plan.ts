/** From a sweep's file to its runs in order, and what they need together. Pure. */
import { badUsage, errorMessage } from '../base/errors';
import { groupBy } from '../base/group-by';
import { shownJson } from '../base/json';
import { mean } from '../base/statistics';
import { stacked, type Config } from '../config';
import { resolveReward } from '../rewards';
import { configHash, resolveTrainConfig } from '../train';
import { badSweep, type Method, type Problem, type Settings, type SweepFile, withPaths } from './file';
import { NAME_CHARACTERS, RUNS, type SweepRun } from './folder';

/** A run of the sweep before it has a state. */
export interface PlannedRun extends Pick<
  SweepRun,
  'folder' | 'method' | 'seed' | 'point' | 'settings' | 'hash'
> {
  /** The entry of `runs` that it comes from. */
  name: string;
  config: Config;
}

/** Of what makes a run what it is: its configuration without its name. */
const hashOf = (config: Config): string => configHash({ ...config, name: null });

const shownValue = (value: unknown): string => (typeof value === 'string' ? value : shownJson(value));

/** Every combination of the values, the last setting varying fastest. */
function pointsOf(grid: readonly (readonly [string, readonly unknown[]])[]): [string, unknown][][] {
  return grid.reduce<[string, unknown][][]>(
    (points, [setting, values]) =>
      points.flatMap((point) => values.map((value): [string, unknown][] => [...point, [setting, value]])),
    [[]],
  );
}

function checkRewards({ reward, rewardParams, rewardModules }: Config): void {
  const entries = typeof reward === 'string' ? [{ name: reward, params: {} }] : reward;
  for (const { name, params } of entries)
    if (rewardModules[name] === undefined) resolveReward(name, { ...rewardParams[name], ...params });
}

function runOf(
  { base }: SweepFile,
  { name, settings: own }: Method,
  seedLayer: Settings,
  point: readonly [string, unknown][],
): PlannedRun {
  const given: Settings = stacked([base, own, withPaths(Object.fromEntries(point)), seedLayer]);
  const config = resolveTrainConfig([given]);
  if (config.notify !== null)
    throw badUsage(
      'notify: a sweep writes settings into files, and this address is a secret; give it in ACOER_NOTIFY',
    );
  checkRewards(config);
  const named = point.map(([setting, value]) => `${setting}=${shownValue(value)}`);
  const unusable = new RegExp(`[^${NAME_CHARACTERS}]+`, 'g');
  const folder = [name, ...named.map((part) => part.replace(unusable, '_')), `s${config.seed}`].join('-');
  return {
    name,
    folder: `${RUNS}/${folder}`,
    method: [name, ...named].join(' '),
    seed: config.seed,
    point: Object.fromEntries(point),
    settings: { ...given, seed: config.seed },
    hash: hashOf(config),
    config,
  };
}

/** Evaluations that fall elsewhere, or are of other problems, compare nothing. */
const SAME_FOR_ALL = ['evalSteps', 'evalProblems', 'evalSampledProblems'] as const;

function differences(runs: readonly PlannedRun[]): Problem[] {
  const twice = (found: (run: PlannedRun) => string, what: string): Problem[] => {
    const first = new Map<string, PlannedRun>();
    return runs.flatMap((run) => {
      const before = first.get(found(run));
      first.set(found(run), before ?? run);
      return before === undefined ? [] : [{ path: run.folder, message: `${what} ${before.folder}` }];
    });
  };
  const folders = twice(({ folder }) => folder, 'has the same name as');
  if (folders.length > 0) return folders;
  const unequal = SAME_FOR_ALL.flatMap((setting): Problem[] => {
    const [first] = runs;
    const other = runs.find(({ config }) => config[setting] !== first!.config[setting]);
    if (other === undefined) return [];
    const [a, b] = [first!, other].map(({ method, config }) => `${config[setting]} in ${method}`);
    return [{ path: setting, message: `must be the same in all runs, and is ${a} and ${b}` }];
  });
  return [...twice(({ hash }) => hash, 'is the same run, by its settings, as'), ...unequal];
}

/** The problems in an error of the configuration, which may list several. */
const problemsOf = (path: string, message: string): Problem[] =>
  message
    .replace(/^Configuration(: |, \d+ problems:\n)/, '')
    .split('\n')
    .map((line) => ({ path, message: line.trim() }));

/** The same problem of many runs is one problem, said of the first of them. */
function grouped(problems: readonly Problem[]): Problem[] {
  return [...groupBy(problems, ({ message }) => message)].map(([message, [first, ...others]]) => ({
    path: others.length === 0 ? first.path : `${first.path} and ${others.length} more`,
    message,
  }));
}

/** All runs in the order in which they start: seeds outermost, then the entries of `runs`, then the other points. @throws BAD_CONFIG */
export function sweepRuns(file: SweepFile): PlannedRun[] {
  const seeds = file.grid.find(([setting]) => setting === 'seed')?.[1] ?? [undefined];
  const points = pointsOf(file.grid.filter(([setting]) => setting !== 'seed'));
  const problems: Problem[] = [];
  const runs = seeds.flatMap((seed) =>
    file.methods.flatMap((method) =>
      points.flatMap((point): PlannedRun[] => {
        try {
          // What is no seed is refused with the other settings.
          const seedLayer = seed === undefined ? {} : ({ seed } as Settings);
          return [runOf(file, method, seedLayer, point)];
        } catch (error) {
          problems.push(...problemsOf(`run ${method.name}`, errorMessage(error)));
          return [];
        }
      }),
    ),
  );
  if (problems.length > 0) throw badSweep(file.path, grouped(problems));
  const found = differences(runs);
  if (found.length > 0) throw badSweep(file.path, found);
  return runs;
}

/** Which final evaluation is the metric. @throws BAD_CONFIG if the runs have none of that kind */
export function metricOf(file: SweepFile, runs: readonly PlannedRun[]): 'sampled' | 'greedy' {
  const { evalSampledProblems, evalProblems } = runs[0]!.config;
  const kind = file.kind ?? (evalSampledProblems > 0 ? 'sampled' : 'greedy');
  const setting = kind === 'sampled' ? 'evalSampledProblems' : 'evalProblems';
  if ((kind === 'sampled' ? evalSampledProblems : evalProblems) > 0) return kind;
  throw badSweep(file.path, [
    {
      path: 'evaluation',
      message: `the runs have no ${kind} evaluation, so nothing can be compared; set ${setting}`,
    },
  ]);
}

/** What one run needs by itself; `hours` null: the device's rates are unknown. */
export interface RunNeeds {
  /** At its peak. */
  bytes: number;
  hours: number | null;
  /** Predicted for one step, in seconds. */
  stepSeconds: number | null;
  /** Why it does not fit by itself; null: it fits. */
  shortage: string | null;
}

/** How many runs at a time, and with how many threads each. */
export interface Together {
  parallel: number;
  threads: number;
}

/**
 * As many at a time as have a core and fit into the memory.
 * @param largestBytes of the run that needs most; null: unknown, so one at a time
 */
export function together(
  cores: number,
  runs: number,
  freeBytes: number,
  largestBytes: number | null,
  asked: 'auto' | number,
): Together {
  const fitting = largestBytes === null ? 1 : Math.max(1, Math.floor(freeBytes / largestBytes));
  const parallel = Math.max(1, Math.min(asked === 'auto' ? Math.min(cores, fitting) : asked, runs));
  return { parallel, threads: Math.max(1, Math.floor(cores / parallel)) };
}

/** Seconds of a finished run's steps, on the average. */
export interface Measured {
  method: string;
  stepSeconds: number;
}

/**
 * Hours of the runs that are left, at `parallel` a time. What was measured corrects what was predicted: a run takes its
 * predicted time, times what measured steps of its method, else of all methods, took longer than predicted.
 * @returns null: neither predicted nor measured
 */
export function hoursLeft(
  left: readonly { run: Pick<PlannedRun, 'method' | 'config'>; needs: RunNeeds | null }[],
  measured: readonly Measured[],
  parallel: number,
): number | null {
  let hours = 0;
  for (const { run, needs } of left) {
    const same = measured.filter(({ method }) => method === run.method);
    const known = same.length > 0 ? same : measured;
    const seconds = known.length === 0 ? null : mean(known.map((one) => one.stepSeconds));
    const predicted = needs?.hours ?? null;
    if (predicted !== null && seconds !== null && needs?.stepSeconds)
      hours += (predicted * seconds) / needs.stepSeconds;
    else if (predicted !== null) hours += predicted;
    else if (seconds !== null) hours += (seconds * run.config.maxSteps) / 3600;
    else return null;
  }
  return hours / Math.max(1, Math.min(parallel, left.length));
}
