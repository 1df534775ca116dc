/** Which linears PEFT adapts under an adapter_config.json, and each one's rank and alpha: PEFT 0.21's rules. */
import { withinTime } from '../base/deadline';
import { TARGET_MODULES, type LoraMatrix, type TargetModule } from '../engine/types';
import { shownJson } from '../base/json';
import { badFile } from './files';

/** The fields of adapter_config.json that the rules read. */
export interface TargetFields {
  r: number;
  lora_alpha: number;
  target_modules: string | string[];
  exclude_modules?: string | string[] | null;
  layers_to_transform?: number | number[] | null;
  layers_pattern?: string | string[] | null;
  rank_pattern?: Record<string, number> | null;
  alpha_pattern?: Record<string, number> | null;
}

/** A linear that the configuration adapts; `rank` is null where a pattern is not one of JavaScript. */
export interface ConfiguredMatrix extends Omit<LoraMatrix, 'rank'> {
  rank: number | null;
}

export interface Configured {
  matrices: ConfiguredMatrix[];
  /** false: what is adapted is a pattern that cannot be read here, and `matrices` has all linears. */
  known: boolean;
}

/** Regular expressions of others' files may run away; all of an adapter's together get this long. */
const PATTERN_LIMIT_MS = 2_000;

/** Modules with weights that PEFT can adapt and this engine cannot. */
const OTHER_MODULES = ['model.embed_tokens', 'lm_head'];

const block = (module: TargetModule): string =>
  ['q_proj', 'k_proj', 'v_proj', 'o_proj'].includes(module) ? 'self_attn' : 'mlp';

/** A linear's name in the model, which PEFT's rules are about. */
export const moduleName = (layer: number, module: TargetModule): string =>
  `model.layers.${layer}.${block(module)}.${module}`;

/**
 * A pattern of Python's `re` as JavaScript's; null where the two languages differ by more than spelling. Names
 * of modules have no line ends, so flags about these do not matter.
 */
function compiled(before: string, pattern: string, after: string): RegExp | null {
  const flags = /^\(\?([ims]+)\)/.exec(pattern);
  const body = pattern
    .slice(flags?.[0].length ?? 0)
    .replaceAll('(?P<', '(?<')
    .replace(/\(\?P=(\w+)\)/g, '\\k<$1>')
    .replaceAll('\\A', '^')
    .replaceAll('\\Z', '$')
    .replaceAll('{,', '{0,');
  // An empty class, in JavaScript; in Python the bracket belongs to it.
  if (/\[\^?\]/.test(body)) return null;
  try {
    return new RegExp(`${before}${body}${after}`, flags?.[1]!.includes('i') ? 'i' : '');
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

const listOf = <T>(value: T | T[]): T[] => (Array.isArray(value) ? value : [value]);

/** Whether `name` is one of `names`, or ends with one of them after a dot. */
const endsWithOne = (name: string, names: readonly string[]): boolean =>
  names.some((wanted) => name === wanted || name.endsWith(`.${wanted}`));

type Rule = (name: string) => boolean;
const never: Rule = () => false;

/** `layers_to_transform`: the first number after a named part, or after one of `layers_pattern`. */
function layerRule({ layers_to_transform: chosen, layers_pattern: patterns }: TargetFields): Rule | null {
  if (chosen === null || chosen === undefined || (Array.isArray(chosen) && chosen.length === 0)) {
    return () => true;
  }
  const layers = new Set(listOf(chosen));
  const named = listOf(patterns ?? []).filter((pattern) => pattern !== '');
  const places =
    named.length === 0
      ? [/^.*?\.[^.]*\.(?<idx>\d+)\./]
      : named.map((pattern) => compiled('^(?:(?:^|.*?\\.)', pattern, '\\.(?<idx>\\d+)\\.)'));
  if (places.includes(null)) return null;
  return (name) => {
    const found = places.map((place) => place!.exec(name)).find((match) => match !== null);
    return found?.groups?.idx !== undefined && layers.has(Number(found.groups.idx));
  };
}

function excludeRule({ exclude_modules: excluded }: TargetFields): Rule | null {
  if (!excluded) return never;
  if (Array.isArray(excluded)) return (name) => endsWithOne(name, excluded);
  const pattern = compiled('^(?:', excluded, ')$');
  return pattern && ((name) => pattern.test(name));
}

/** `target_modules`: all linears, a pattern of whole names, or whole names and ends of names. */
function targetRule(fields: TargetFields): Rule | null {
  const { target_modules: targets } = fields;
  if (typeof targets === 'string') {
    // PEFT leaves out the head.
    if (targets.toLowerCase() === 'all-linear') return (name) => !OTHER_MODULES.includes(name);
    const pattern = compiled('^(?:', targets, ')$');
    return pattern && ((name) => pattern.test(name));
  }
  const inLayers = layerRule(fields);
  return inLayers && ((name) => targets.includes(name) || (endsWithOne(name, targets) && inLayers(name)));
}

/** The value of the first pattern that `name` ends with; null: one before it is not one of JavaScript. */
function patternValue(patterns: TargetFields['rank_pattern'], otherwise: number) {
  const rules = Object.entries(patterns ?? {}).map(
    ([key, value]) => [compiled('^(.*\\.)?(', key, ')$'), value, key] as const,
  );
  return (name: string): number | { unread: string } => {
    for (const [pattern, value, key] of rules) {
      if (pattern === null) return { unread: key };
      if (pattern.test(name)) return value;
    }
    return otherwise;
  };
}

function readRules(fields: TargetFields, numLayers: number, path: string): Configured {
  const [targets, excludes] = [targetRule(fields), excludeRule(fields)];
  const adapts = targets && excludes && ((name: string) => targets(name) && !excludes(name));
  const stranger = adapts && OTHER_MODULES.find(adapts);
  if (stranger) {
    throw badFile(
      `${path} targets ${stranger}, which this engine does not adapt (it adapts ${TARGET_MODULES.join(', ')})`,
    );
  }
  const rankOf = patternValue(fields.rank_pattern, fields.r);
  const alphaOf = patternValue(fields.alpha_pattern, fields.lora_alpha);
  const matrices: ConfiguredMatrix[] = [];
  for (let layer = 0; layer < numLayers; layer++) {
    for (const module of TARGET_MODULES) {
      const name = moduleName(layer, module);
      if (adapts && !adapts(name)) continue;
      const [rank, alpha] = [rankOf(name), alphaOf(name)];
      if (typeof alpha === 'object') {
        throw badFile(
          `${path}: alpha_pattern has the regular expression ${shownJson(alpha.unread)}, which this engine cannot read; name the modules instead`,
        );
      }
      matrices.push({ layer, module, rank: typeof rank === 'object' ? null : rank, alpha });
    }
  }
  return { matrices, known: adapts !== null };
}

/**
 * What the configuration adapts in a model of `numLayers` layers.
 * @param path for messages
 * @throws BAD_FILE for a module that this engine does not adapt, or a pattern that runs away
 */
export function configuredMatrices(fields: TargetFields, numLayers: number, path: string): Configured {
  const read = withinTime(PATTERN_LIMIT_MS, () => readRules(fields, numLayers, path));
  if (read === null) {
    throw badFile(
      `${path} has a regular expression that takes longer than ${PATTERN_LIMIT_MS} ms over the names of a model's modules`,
    );
  }
  return read.value;
}
