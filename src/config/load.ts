/** Reads configuration files and `--set path=value`. */
import { dirname, resolve } from 'node:path';
import { AcoerError, badUsage, errorMessage, whyUnreadable } from '../base/errors';
import { readRegularFileSync } from '../base/regular-file';
import { parseYaml } from '../base/yaml';
import { isRecord } from '../base/json';
import { isJavaScriptFile } from './pattern';
import { isNamedSink } from './sinks';
import type { ConfigInput } from './options.generated';

type Values = Record<string, unknown>;

/** The YAML parser uses up to 3 KB for each fault, and every character may be one; real files have a few thousand. */
const MAX_BYTES = 64 * 1024;

/** Reads a YAML or JSON file (JSON is YAML). An empty file is an empty configuration. */
export function readConfigFile(path: string): ConfigInput & { preset?: string } {
  let text: string;
  try {
    text = readRegularFileSync(path, MAX_BYTES).toString('utf8');
  } catch (cause) {
    throw badUsage(`Cannot read the configuration ${path}: ${whyUnreadable(cause)}`, cause);
  }
  const refusal = (fault: unknown) =>
    notSettings(path, `is neither YAML nor JSON: ${errorMessage(fault)}`, fault);
  const value: unknown = parseYaml(text, refusal) ?? {};
  if (typeof value !== 'object' || Array.isArray(value)) {
    throw notSettings(path, `must hold settings as "name: value" lines, not ${typeof value}`);
  }
  if (namesPrototype(value)) throw notSettings(path, NAMES_PROTOTYPE);
  // `$schema` is for editors.
  const { $schema: _schema, ...settings } = value as Values;
  return withModulePaths(settings, dirname(path));
}

/** @param seen what YAML's aliases repeat, a part of itself as well */
function namesPrototype(value: unknown, seen = new Set<unknown>()): boolean {
  if (typeof value !== 'object' || value === null || seen.has(value)) return false;
  seen.add(value);
  return Object.hasOwn(value, '__proto__') || Object.values(value).some((part) => namesPrototype(part, seen));
}

const NAMES_PROTOTYPE = 'sets `__proto__`, which is no setting';

function notSettings(path: string, fault: string, cause?: unknown): AcoerError {
  const data = /\.(jsonl|ndjson|csv|tsv|parquet)(\.gz)?$/i.test(path);
  const hint = data ? ` If it is training data, use --set dataset=${path}.` : '';
  return badUsage(`${path} ${fault}.${hint}`, cause);
}

/** Resolves module paths relative to the folder of the file that names them. */
export function withModulePaths(values: Values, folder: string): ConfigInput {
  const { rewardModules, sinks, judge, sampler } = values;
  const inFolder = (file: unknown) => (typeof file === 'string' ? resolve(folder, file) : file);
  const paths: Values = {};
  if (typeof rewardModules === 'object' && rewardModules !== null) {
    const entries = Object.entries(rewardModules).map(([name, file]) => [name, inFolder(file)]);
    paths['rewardModules'] = Object.fromEntries(entries);
  }
  if (typeof judge === 'string' && isJavaScriptFile(judge)) paths['judge'] = inFolder(judge);
  if (Array.isArray(sinks)) {
    paths['sinks'] = sinks.map((sink) =>
      typeof sink === 'string' && isNamedSink(sink) ? sink : inFolder(sink),
    );
  }
  const inPlace = (name: unknown) =>
    typeof name === 'string' && isJavaScriptFile(name) ? inFolder(name) : name;
  if (isRecord(sampler)) {
    // Of a file its name, of servers the folder of adapters.
    const { name, folder: published } = sampler;
    paths['sampler'] = {
      ...sampler,
      ...(name !== undefined && { name: inPlace(name) }),
      ...(published !== undefined && { folder: inFolder(published) }),
    };
  } else if (sampler !== undefined) paths['sampler'] = inPlace(sampler);
  return { ...values, ...paths };
}

/** Splits a path at dots, of which a reward's name may have some: in `rewardParams` the last one counts. */
function splitPath(path: string): string[] {
  const keys = path.split('.');
  if (keys[0] !== 'rewardParams' || keys.length <= 3) return keys;
  return ['rewardParams', keys.slice(1, -1).join('.'), keys.at(-1)!];
}

/** @param assignment shown without the address of `notify`, which is a secret */
const badAssignment = (assignment: string, fault: string, options?: { cause: unknown }) =>
  new AcoerError(
    'BAD_CONFIG',
    `--set ${assignment.replace(/^\s*notify=[^]*/, 'notify=...')}: ${fault}`,
    options,
  );

function assign(target: Values, keys: readonly string[], value: unknown, assignment: string): void {
  let place: Values = target;
  for (const key of keys.slice(0, -1)) {
    const next = place[key] ?? (place[key] = {});
    if (typeof next !== 'object' || next === null) {
      throw badAssignment(assignment, `\`${key}\` is not a group of settings.`);
    }
    place = next as Values;
  }
  place[keys.at(-1)!] = value;
}

/** `path=value` assignments as a layer. Values are YAML: numbers, true, null, [lists], {maps}, else text. */
export function parseAssignments(assignments: readonly string[]): ConfigInput {
  const values: Values = {};
  for (const assignment of assignments) {
    const equals = assignment.indexOf('=');
    if (equals <= 0) {
      throw badAssignment(assignment, 'expected path=value, e.g. --set learningRate=1e-4');
    }
    const keys = splitPath(assignment.slice(0, equals).trim());
    if (keys.some((key) => key === '' || key === '__proto__')) {
      throw badAssignment(assignment, 'the path has an empty or forbidden component.');
    }
    assign(values, keys, parseScalar(assignment.slice(equals + 1), assignment), assignment);
  }
  return values;
}

function parseScalar(text: string, assignment: string): unknown {
  const refusal = (fault: unknown) =>
    badAssignment(assignment, `cannot parse the value: ${errorMessage(fault)}`, { cause: fault });
  const value: unknown = parseYaml(text, refusal);
  if (namesPrototype(value)) throw badAssignment(assignment, `${NAMES_PROTOTYPE}.`);
  // YAML parses an empty value as null; on the command line it means an empty string.
  return text.trim() === '' ? '' : value;
}
