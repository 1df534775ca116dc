/** sweep.yaml: which runs a sweep has. Read strictly, and everything that is wrong is one error. */
import { basename, dirname, resolve } from 'node:path';
import { z } from 'zod';
import { badUsage, errorMessage, type AcoerError } from '../base/errors';
import { isRecord } from '../base/json';
import {
  CONFIG_KEYS,
  didYouMean,
  parseAssignments,
  problemsOf,
  readConfigFile,
  stacked,
  withModulePaths,
  type ConfigInput,
} from '../config';

/** Settings that may name their preset. */
export type Settings = ConfigInput & { preset?: string };

/** A problem and its place in the file. */
export interface Problem {
  path: string;
  message: string;
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$/;

const name = z
  .string()
  .regex(NAME, 'must be a folder name of letters, digits, dots, +, - and _, such as grpo-lp');
const settings = z.record(z.string(), z.unknown());

const FILE = z.strictObject({
  name: name.optional(),
  base: z.union([z.string().min(1), settings]),
  runs: z
    .array(z.strictObject({ name, config: z.string().min(1).optional(), set: settings.optional() }))
    .min(1)
    .optional(),
  grid: z.record(z.string(), z.array(z.unknown()).min(1)).optional(),
  overlay: z.array(z.string()).min(1).optional(),
  parallel: z.union([z.literal('auto'), z.int().min(1).max(4096)]).default('auto'),
  maxFailures: z.int().min(1).nullable().default(null),
  evaluation: z.strictObject({ kind: z.enum(['sampled', 'greedy']) }).optional(),
});

type Entry = NonNullable<z.infer<typeof FILE>['runs']>[number];

const KEYS = Object.keys(FILE.shape);
const RUN_KEYS = ['name', 'config', 'set'];

/** One entry of `runs`: a method, before the grid. */
export interface Method {
  name: string;
  /** Over the base. */
  settings: Settings;
}

export interface SweepFile {
  path: string;
  name: string;
  base: Settings;
  methods: Method[];
  /** Values by the path of a setting. */
  grid: [setting: string, values: unknown[]][];
  overlay: string[] | null;
  parallel: 'auto' | number;
  maxFailures: number | null;
  /** null: sampled where the runs have such an evaluation. */
  kind: 'sampled' | 'greedy' | null;
}

const SHOWN_PROBLEMS = 20;

/** One error that lists all problems of the file. */
export function badSweep(path: string, problems: readonly Problem[]): AcoerError {
  const lines = problems
    .slice(0, SHOWN_PROBLEMS)
    .map(({ path: at, message }) => `${at.slice(0, 200)}: ${message}`);
  if (problems.length > lines.length) lines.push(`and ${problems.length - lines.length} more`);
  return badUsage(
    problems.length === 1
      ? `${path}: ${lines[0]}`
      : `${path}, ${problems.length} problems:\n${lines.map((line) => `  ${line}`).join('\n')}`,
  );
}

/** The union of `base` and of `parallel` in words; all others are said by zod's issue. */
const WANTED: Readonly<Record<string, string>> = {
  base: 'must be the path of a configuration, or settings',
  parallel: 'must be auto or a whole number from 1 on',
};

function problemsIn(issues: readonly z.core.$ZodIssue[], content: unknown): Problem[] {
  return issues.flatMap((issue): Problem[] => {
    const [first] = issue.path;
    if (issue.code === 'invalid_union')
      return [{ path: String(first), message: WANTED[String(first)] ?? issue.message }];
    if (issue.code === 'invalid_format') return [{ path: issue.path.join('.'), message: issue.message }];
    const known = first === 'runs' ? RUN_KEYS : first === 'evaluation' ? ['kind'] : KEYS;
    if (issue.code !== 'unrecognized_keys') return problemsOf(issue, content, known);
    return issue.keys.map((key) => ({
      path: [...issue.path, key].join('.'),
      message: `there is no such entry${didYouMean(key, known)}`,
    }));
  });
}

/** Collects what `read` throws; null: it has thrown. */
function attempt<T>(problems: Problem[], path: string, read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    problems.push({ path, message: errorMessage(error) });
    return null;
  }
}

/** Settings that are named by their path, `rewardParams.acoer.alphaInit`, in their places. */
export const withPaths = (values: Settings | Readonly<Record<string, unknown>>): Settings =>
  parseAssignments(Object.entries(values).map(([path, value]) => `${path}=${JSON.stringify(value)}`));

/** The settings of a method's file; with `overlay` only those. */
function methodSettings(
  folder: string,
  file: string | undefined,
  overlay: readonly string[] | null,
): Settings {
  if (file === undefined) return {};
  const all = readConfigFile(resolve(folder, file));
  if (overlay === null) return all;
  return Object.fromEntries(Object.entries(all).filter(([key]) => overlay.includes(key)));
}

function overlayProblems(overlay: readonly string[]): Problem[] {
  return overlay
    .filter((setting) => !CONFIG_KEYS.includes(setting))
    .map((setting) => ({
      path: 'overlay',
      message: `there is no setting \`${setting}\`${didYouMean(setting, CONFIG_KEYS)}`,
    }));
}

function repeated(names: readonly string[]): Problem[] {
  return names.flatMap((one, i) =>
    names.indexOf(one) === i
      ? []
      : [{ path: `runs.${i}.name`, message: `\`${one}\` is the name of another run` }],
  );
}

/**
 * The file at `path`; files that it names are beside it.
 * @throws BAD_CONFIG listing everything that is wrong
 */
export function readSweepFile(path: string): SweepFile {
  const content: unknown = readConfigFile(path);
  const parsed = FILE.safeParse(content);
  if (!parsed.success) throw badSweep(path, problemsIn(parsed.error.issues, content));
  const { base, runs, grid = {}, overlay = null, parallel, maxFailures, evaluation } = parsed.data;
  const folder = dirname(path);
  const problems: Problem[] = overlay === null ? [] : overlayProblems(overlay);
  const inPlace = (values: Settings): Settings => withModulePaths({ ...withPaths(values) }, folder);
  const baseSettings = attempt(problems, 'base', () =>
    typeof base === 'string' ? readConfigFile(resolve(folder, base)) : inPlace(base),
  );
  if (overlay !== null && runs?.some(({ config }) => config !== undefined) !== true)
    problems.push({ path: 'overlay', message: 'goes with a run that has a `config`' });
  const entries: Entry[] = runs ?? [
    { name: isRecord(base) ? 'run' : basename(base).replace(/\.[^.]*$/, '') },
  ];
  problems.push(...repeated(entries.map((run) => run.name)));
  const methods = entries.flatMap((run, i): Method[] => {
    const own = attempt(problems, `runs.${i}.config`, () => methodSettings(folder, run.config, overlay));
    const set = attempt(problems, `runs.${i}.set`, () => inPlace(run.set ?? {}));
    if (own === null || set === null) return [];
    return [{ name: run.name, settings: stacked([own, set]) }];
  });
  if (problems.length > 0) throw badSweep(path, problems);
  return {
    path,
    name: parsed.data.name ?? basename(path).replace(/\.[^.]*$/, ''),
    base: baseSettings!,
    methods,
    grid: Object.entries(grid),
    overlay,
    parallel,
    maxFailures,
    kind: evaluation?.kind ?? null,
  };
}
