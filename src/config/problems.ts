/** Turns zod's issues into sentences that name the setting, its requirement and the value given. */
import type { z } from 'zod';
import { type AcoerError, badUsage } from '../base/errors';
import { isRecord, shownJson } from '../base/json';
import { renamedLossSetting } from './earlier';
import { COLUMN_ROLES } from './fields';
import { MONITOR_KEYS } from './guard-fields';
import { didYouMean } from './nearest';
import type { ConfigProblem } from './rules';
import { vllmSampler } from './samplers';
import { PHASES } from './watchdog-fields';

type Issue = z.core.$ZodIssue;

const pathName = (path: readonly PropertyKey[]) => path.map(String).join('.');

function valueAt(input: unknown, path: readonly PropertyKey[]): unknown {
  let value = input;
  for (const key of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = (value as Record<PropertyKey, unknown>)[key];
  }
  return value;
}

function bound(issue: Issue & { code: 'too_small' | 'too_big' }): string {
  const below = issue.code === 'too_big';
  const limit = below ? issue.maximum : issue.minimum;
  if (issue.origin === 'string' || issue.origin === 'array') {
    const unit = issue.origin === 'string' ? 'character' : 'entry';
    return `must have ${below ? 'at most' : 'at least'} ${limit} ${unit}${limit === 1 ? '' : 's'}`;
  }
  if (below) return `must be ${issue.inclusive === false ? 'below' : 'at most'} ${limit}`;
  return `must be ${issue.inclusive === false ? 'above' : 'at least'} ${limit}`;
}

function requirement(issue: Issue): string {
  switch (issue.code) {
    case 'invalid_type':
      return issue.expected === 'int' ? 'must be a whole number' : `must be ${article(issue.expected)}`;
    case 'too_small':
    case 'too_big':
      return bound(issue);
    case 'invalid_value':
      return `must be one of ${issue.values.map(String).join(', ')}`;
    case 'invalid_format':
      return `must be ${issue.message}`;
    case 'invalid_union':
      return issue.path[0] === 'targetModules'
        ? 'must be all-linear or a list of modules'
        : issue.path[0] === 'sampler'
          ? 'must be engine, a file, {name, params} or {type: vllm, servers}'
          : 'must be a name or a list of {name, weight, params}';
    default:
      return issue.message;
  }
}

const article = (kind: string) => `${/^[aeiou]/.test(kind) ? 'an' : 'a'} ${kind}`;

/** The keys of settings that are maps. */
const INNER_KEYS: Readonly<Record<string, readonly string[]>> = {
  reward: ['name', 'weight', 'params'],
  sampler: ['name', 'params', ...Object.keys(vllmSampler.shape)],
  columns: COLUMN_ROLES,
  evalColumns: COLUMN_ROLES,
  monitor: MONITOR_KEYS,
  watchdogPhaseMs: PHASES,
};

/** Settings whose values no message shows. */
const SECRETS: readonly string[] = ['notify'];

/** Settings of earlier versions and what they are called now. */
const RENAMED: Readonly<Record<string, string>> = {
  'monitor.baseSteps': 'it is now `monitor.baseGroups`, which counts groups (prompts), not batches',
};

function unknownSetting(path: string, nearest: string): string {
  const moved = renamedLossSetting(path);
  const renamed = Object.hasOwn(RENAMED, path) ? RENAMED[path]! : null;
  const now = renamed ?? (moved === null ? null : `it is now \`${moved}\``);
  return now === null ? `unknown setting${nearest}` : `unknown setting; ${now}`;
}

/** What is wrong with `value` as the one of several kinds that it is meant to be; undefined: it is none of them. */
function meantBy(issue: Issue & { code: 'invalid_union' }, value: unknown): readonly Issue[] | undefined {
  if (Array.isArray(value))
    return issue.errors.find((errors) => errors.some((inner) => inner.path.length > 0));
  if (!isRecord(value) || issue.path[0] !== 'sampler') return undefined;
  const [, ofFile, ofServers] = issue.errors;
  return 'type' in value ? ofServers : ofFile;
}

/**
 * The problems of one issue: one for each unknown key, with the nearest known name.
 * @param hintOf makes the hint for an unknown top-level key
 */
export function problemsOf(
  issue: Issue,
  input: unknown,
  knownKeys: readonly string[],
  hintOf: typeof didYouMean = didYouMean,
): ConfigProblem[] {
  if (issue.code === 'unrecognized_keys') {
    const atTop = issue.path.length === 0;
    const known = atTop ? knownKeys : (INNER_KEYS[String(issue.path[0])] ?? []);
    return issue.keys.map((key) => ({
      path: pathName([...issue.path, key]),
      message: unknownSetting(pathName([...issue.path, key]), (atTop ? hintOf : didYouMean)(key, known)),
    }));
  }
  const meant = issue.code === 'invalid_union' ? meantBy(issue, valueAt(input, issue.path)) : undefined;
  if (meant !== undefined) {
    return meant.flatMap((inner) =>
      problemsOf({ ...inner, path: [...issue.path, ...inner.path] }, input, knownKeys),
    );
  }
  const path = pathName(issue.path);
  if (SECRETS.includes(path)) return [{ path, message: requirement(issue) }];
  return [{ path, message: `${requirement(issue)}, not ${shownJson(valueAt(input, issue.path))}` }];
}

const SHOWN_PROBLEMS = 20;
/** Characters of a path, whose last part may be any text. */
const SHOWN_PATH = 200;

/** One error listing all problems. */
export function badConfig(problems: readonly ConfigProblem[]): AcoerError {
  const lines = problems
    .slice(0, SHOWN_PROBLEMS)
    .map(({ path, message }) => `${path.slice(0, SHOWN_PATH)}: ${message}`);
  if (problems.length > lines.length) lines.push(`and ${problems.length - lines.length} more`);
  const text =
    problems.length === 1
      ? `Configuration: ${lines[0]}`
      : `Configuration, ${problems.length} problems:\n${lines.map((line) => `  ${line}`).join('\n')}`;
  return badUsage(text);
}
