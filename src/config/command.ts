/** A configuration as the shortest way to ask for it: a preset, the settings that differ, and a command. */
import { parse } from 'yaml';
import type { Config } from './fields';
import type { ConfigInput } from './options.generated';
import { PRESETS } from './presets';
import { mergeLayers, resolveConfig } from './resolve';
import { servedBy } from './samplers';

/** `word` quoted for a shell if necessary. */
const quoted = (word: string): string =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;

/** A value as `--set` reads it: JSON is YAML, and most text needs no quotes unless it starts with @. */
const yamlText = (value: unknown): string =>
  typeof value === 'string' && /^[\w./][\w./@+ -]*$/.test(value) && parse(value) === value
    ? value
    : JSON.stringify(value);

const sameValue = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/** The settings that turn `preset` into `config`; null if none can. */
function settingsOver(preset: string, config: Config): [string, unknown][] | null {
  const base = resolveConfig([], preset);
  const entries = Object.entries(config).filter(
    // Who is told of a run, and which servers sampled for it, is nobody else's concern.
    ([key, value]) =>
      key !== 'notify' &&
      !(key === 'sampler' && servedBy(config) !== null) &&
      !sameValue(value, base[key as keyof Config]),
  );
  // Settings are merged into a preset's maps, so an entry of the preset cannot be removed.
  const reached = mergeLayers([Object.fromEntries(entries)], preset);
  const same = entries.every(([key, value]) => sameValue(reached[key as keyof ConfigInput], value));
  return same ? entries : null;
}

/** The preset that needs the fewest other settings to become `config`, and these. */
export function nearestPreset(config: Config): { preset: string; settings: [string, unknown][] } {
  const found = Object.keys(PRESETS).flatMap((preset) => {
    const settings = settingsOver(preset, config);
    return settings === null ? [] : [{ preset, settings }];
  });
  return found.reduce((a, b) => (b.settings.length < a.settings.length ? b : a));
}

/** The command `npx acoer train` for a clone. */
export function trainCommand(config: Config): string {
  const { preset, settings } = nearestPreset(config);
  const words = settings.map(([key, value]) => {
    return `--set ${quoted(`${key}=${yamlText(value)}`)}`;
  });
  return [`npx acoer train --preset ${preset}`, ...words].join(' \\\n  ');
}
