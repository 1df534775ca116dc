/** Combines what a user wrote (preset, file, options, --set) into one validated configuration. */
import { needList, needObject } from '../base/border';
import { configSchema, type Config } from './fields';
import { didYouMean } from './nearest';
import type { ConfigInput } from './options.generated';
import { defaultPreset, PRESETS } from './presets';
import { badConfig, problemsOf } from './problems';
import { crossFieldProblems, type ConfigProblem } from './rules';
import { trlHint } from './trl-names';
import { isRecord, shownJson } from '../base/json';
import { OFF_POLICY_DEFAULTS, offPolicySources } from './samplers';

type Values = Record<string, unknown>;

export const CONFIG_KEYS: readonly string[] = Object.keys(configSchema.shape);

const MERGED_MAPS = new Set([
  'rewardModules',
  'columns',
  'evalColumns',
  'judgeParams',
  'monitor',
  'watchdogPhaseMs',
]);

/** `over` on top of `under`: fields are replaced, except that maps are merged by key. */
function overlay(under: Values, over: object): Values {
  const merged = { ...under };
  for (const [key, value] of Object.entries(over as Values)) {
    if (value === undefined) continue;
    if ((key === 'rewardParams' || key === 'lossParams') && isRecord(value) && isRecord(merged[key])) {
      merged[key] = overlayParams(merged[key], value);
    } else if (key === 'sampler' && isSamplerPart(value, merged[key])) {
      merged[key] = { ...(merged[key] as Values), ...value };
    } else if (MERGED_MAPS.has(key) && isRecord(value) && isRecord(merged[key])) {
      merged[key] = { ...merged[key], ...value };
    } else {
      merged[key] = value;
    }
  }
  return merged;
}

/** Whether `over` changes parts of the sampler `under`, and is none by itself. */
const isSamplerPart = (over: unknown, under: unknown): over is Values =>
  isRecord(over) &&
  isRecord(under) &&
  over['name'] === undefined &&
  (over['type'] ?? under['type']) === under['type'];

function overlayParams(under: Values, over: Values): Values {
  const merged = { ...under };
  for (const [name, params] of Object.entries(over)) {
    const before = merged[name];
    merged[name] = isRecord(params) && isRecord(before) ? { ...before, ...params } : params;
  }
  return merged;
}

/** The hint for a TRL name is our equivalent; for any other name it is the nearest one. */
const nameHint = (name: string, known: readonly string[]) => trlHint(name) || didYouMean(name, known);

/** All weights are trained in float32: small updates would be lost in the model's own bfloat16. */
export const withFullDtype = <Settings extends Pick<Config, 'full' | 'dtype'>>(
  settings: Settings,
): Settings => (settings.full && settings.dtype === null ? { ...settings, dtype: 'float32' } : settings);

function check(values: Values, known: readonly ConfigProblem[]): Config {
  const parsed = configSchema.safeParse(values);
  if (!parsed.success) {
    const found = parsed.error.issues.flatMap((issue) => problemsOf(issue, values, CONFIG_KEYS, nameHint));
    throw badConfig([...known, ...found]);
  }
  const problems = [...known, ...crossFieldProblems(parsed.data)];
  if (problems.length > 0) throw badConfig(problems);
  return withFullDtype(parsed.data);
}

function rewardProblems(values: Values, registered: readonly string[]): ConfigProblem[] {
  const { reward, rewardParams, rewardModules } = values;
  const ownNames = isRecord(rewardModules) ? Object.keys(rewardModules) : [];
  const taken = ownNames.filter((name) => registered.includes(name));
  const known = [...registered, ...ownNames];
  const named = Array.isArray(reward)
    ? reward.map((entry, i) => ({ path: `reward.${i}.name`, name: (entry as Values | null)?.name }))
    : [{ path: 'reward', name: reward }];
  const keys = isRecord(rewardParams) ? Object.keys(rewardParams) : [];
  const all = [...named, ...keys.map((name) => ({ path: `rewardParams.${name}`, name }))];
  const clashes = taken.map((name) => ({
    path: `rewardModules.${name}`,
    message: 'this name is already taken; choose another',
  }));
  const unknown = all.flatMap(({ path, name }) => {
    // A value that is not a string is a type error, which the schema reports.
    if (typeof name !== 'string' || known.includes(name)) return [];
    const file = /[/\\]|\.[cm]?[jt]s$/.test(name)
      ? `; a reward in a file goes under rewardModules: rewardModules.NAME=${name}, and reward NAME`
      : '';
    const hint = file || didYouMean(name, known) || `; choose one of ${known.join(', ')}`;
    return [{ path, message: `there is no reward ${shownJson(name)}${hint}` }];
  });
  return [...clashes, ...unknown];
}

/** `layers`, later ones over earlier ones, without the values of a preset. */
export const stacked = (layers: readonly object[]): Values => layers.reduce<Values>(overlay, {});

const presetOf = (name: unknown) =>
  typeof name === 'string' && Object.hasOwn(PRESETS, name) ? PRESETS[name] : undefined;

/** Merges `layers`, later ones over earlier ones, over the values of the preset they name. */
export function mergeLayers(
  layers: readonly ConfigInput[],
  preset?: string,
): ConfigInput & { preset?: string } {
  const merged = stacked(layers);
  const name = preset ?? merged.preset;
  if (name === undefined) return merged;
  // A preset that is no text is refused where the settings are checked.
  return { ...overlay({ ...presetOf(name)?.values }, merged), preset: name as string };
}

/**
 * The configuration given by `layers`: later layers override earlier ones, and all override the preset and
 * the defaults. A layer may name its preset under `preset`. If none does, the preset is `tiny` for the
 * embedded model or when no model is named, else `paper`. Throws one BAD_CONFIG that lists every problem.
 *
 * @param preset overrides a preset named in a layer
 * @param rewardNames names allowed in `reward` and `rewardParams`; if omitted, any name is accepted
 */
export function resolveConfig(
  layers: readonly (ConfigInput & { preset?: string })[],
  preset?: string,
  rewardNames?: readonly string[],
): Config {
  needList('the layers of resolveConfig()', layers);
  layers.forEach((layer, i) => needObject(`layers[${i}]`, layer));
  const { preset: named, ...values } = stacked(layers);
  const name = preset ?? named ?? defaultPreset(values.model);
  const base = presetOf(name);
  const problems = rewardNames === undefined ? [] : rewardProblems(values, rewardNames);
  if (base === undefined) {
    const names = Object.keys(PRESETS);
    const near = typeof name === 'string' ? didYouMean(name, names) : '';
    const hint = near || `; choose one of ${names.join(', ')}`;
    problems.push({ path: 'preset', message: `there is no preset ${shownJson(name)}${hint}` });
  }
  const merged = overlay({ ...base?.values }, values);
  const isOnPolicy = offPolicySources(merged).length === 0;
  return check(isOnPolicy ? merged : { ...OFF_POLICY_DEFAULTS, ...merged }, problems);
}
