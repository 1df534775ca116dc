/** Stored settings as this version reads them: by their current names, and without an address to call. */
import { isRecord } from '../base/json';
import { REDACTED } from './notify';

/** Former top-level settings that are now parameters of one loss. */
const OF_LOSSES = new Map<string, readonly [loss: string, parameter: string]>([
  ['sapoTemperaturePos', ['sapo', 'temperaturePos']],
  ['sapoTemperatureNeg', ['sapo', 'temperatureNeg']],
  ['vespoKPos', ['vespo', 'kPos']],
  ['vespoLambdaPos', ['vespo', 'lambdaPos']],
  ['vespoKNeg', ['vespo', 'kNeg']],
  ['vespoLambdaNeg', ['vespo', 'lambdaNeg']],
]);

/** A run's folder may come from somebody else, so whatever it has as `notify` is no address. */
const withoutAddress = (settings: Record<string, unknown>): Record<string, unknown> =>
  typeof settings['notify'] === 'string' ? { ...settings, notify: REDACTED } : settings;

/** The stored settings, those of the run's loss in `lossParams`; those of other losses had no effect. */
export const currentSettings = (stored: Readonly<Record<string, unknown>>): Record<string, unknown> =>
  withoutAddress(withCurrentNames(stored));

function withCurrentNames(stored: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const settings = Object.fromEntries(Object.entries(stored).filter(([name]) => !OF_LOSSES.has(name)));
  const lossType = stored['lossType'];
  const moved = [...OF_LOSSES].filter(([name, [loss]]) => Object.hasOwn(stored, name) && loss === lossType);
  if (moved.length === 0) return settings;
  const own = Object.fromEntries(moved.map(([name, [, parameter]]) => [parameter, stored[name]]));
  const given = isRecord(stored['lossParams']) ? stored['lossParams'] : {};
  return { ...settings, lossParams: { ...given, [String(lossType)]: own } };
}

/** The current name of a setting of an earlier version, or null. */
export function renamedLossSetting(name: string): string | null {
  const found = OF_LOSSES.get(name);
  return found === undefined ? null : `lossParams.${found.join('.')}`;
}
