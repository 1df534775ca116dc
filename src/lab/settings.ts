/** Parameters and states that apply to several rewards. */
import { didYouMean } from '../config/nearest';
import { type AcoerError, badUsage } from '../base/errors';
import { isRecord, shownJson } from '../base/json';
import { listRewards } from '../rewards';
import type { BoundReward } from '../rewards/types';
import type { LabSettings } from './types';

type Values = Readonly<Record<string, unknown>>;

function unknownName(kind: string, name: string, known: readonly string[]): AcoerError {
  const list = known.length === 0 ? 'there is none' : `known: ${known.join(', ')}`;
  const message = `None of these rewards has the ${kind} ${name}${didYouMean(name, known)} (${list})`;
  return badUsage(message);
}

/**
 * The parameters to bind each reward with. Throws BAD_CONFIG for a shared parameter that no reward has, or a
 * reward that was not chosen.
 * @param shared applied to every chosen reward that has a parameter of that name
 * @param own parameters of single rewards, by reward name
 */
export function parametersOf(
  names: readonly string[],
  shared: Values,
  own: Readonly<Record<string, Values>>,
): Record<string, Values> {
  const stranger = Object.keys(own).find((name) => !names.includes(name));
  if (stranger !== undefined) {
    const message = `rewardParams.${stranger}: that reward is not among the chosen ones${didYouMean(stranger, names)}`;
    throw badUsage(message);
  }
  for (const [name, values] of Object.entries<unknown>(own)) {
    if (isRecord(values)) continue;
    const message = `rewardParams.${name} must hold parameters, not ${shownJson(values)}`;
    throw badUsage(`${message}; write rewardParams.${name}.PARAMETER=VALUE.`);
  }
  const defaults = new Map(listRewards().map((definition) => [definition.name, definition.defaults]));
  const has = (name: string) => Object.keys(defaults.get(name) ?? {});
  const known = [...new Set(names.flatMap(has))].sort();
  const unknown = Object.keys(shared).find((name) => !known.includes(name));
  if (unknown !== undefined) throw unknownName('parameter', unknown, known);
  return Object.fromEntries(
    names.map((name) => {
      const fitting = Object.entries(shared).filter(([key]) => has(name).includes(key));
      return [name, { ...Object.fromEntries(fitting), ...own[name] }];
    }),
  );
}

const initialOf = (reward: BoundReward, { maxLength }: LabSettings) => reward.initialState({ maxLength });

const kindOf = (value: unknown): string => (Array.isArray(value) ? 'array' : typeof value);

/** Throws BAD_CONFIG for a value that no chosen reward's state has, or one of the wrong kind. */
export function checkState(bound: readonly BoundReward[], settings: LabSettings, given: Values): void {
  const states = bound.map((reward) => initialOf(reward, settings)).filter(isRecord);
  const known = [...new Set(states.flatMap((state) => Object.keys(state)))].sort();
  for (const [name, value] of Object.entries(given)) {
    if (!known.includes(name)) throw unknownName('state value', name, known);
    for (const state of states) {
      const there = state[name];
      // null is a number or a list that is not known yet.
      if (there === undefined || there === null || value === null || kindOf(there) === kindOf(value))
        continue;
      throw badUsage(`State value ${name} must be of kind ${kindOf(there)}, not ${shownJson(value)}.`);
    }
  }
}

/** The initial state, overridden by `given`. */
export function givenState(reward: BoundReward, settings: LabSettings, given: Values): unknown {
  const initial = initialOf(reward, settings);
  if (!isRecord(initial)) return initial;
  const own = Object.entries(given).filter(([name]) => name in initial);
  return { ...initial, ...Object.fromEntries(own) };
}
