/** Rewards by name. `format` is listed too, but the loop adds it to every answer with its own weight. */
import { checkName } from '../base/border';
import { didYouMean } from '../config/nearest';
import { badUsage } from '../base/errors';
import { shownJson } from '../base/json';
import { BUILT_IN } from './built-in';
import type { BoundReward, RewardDefinition } from './types';
import { definitionOf, type RewardFunction, type UserReward } from './user';

const builtInNames = new Set(BUILT_IN.map(({ name }) => name));
const registry = new Map<string, RewardDefinition>(BUILT_IN.map((reward) => [reward.name, reward]));

/**
 * Adds a reward under `name`; a second call under the same name replaces the first. Built-in names are
 * reserved.
 * @param reward a function of (rollout, group), an object with parameters and saved state, or a whole
 * definition
 */
export function registerReward<State>(
  name: string,
  reward: RewardFunction | UserReward<State> | RewardDefinition,
): void {
  checkName('reward', name);
  if (isBuiltIn(name)) {
    throw badUsage(`A reward named "${name}" is built in; choose another name`);
  }
  registry.set(name, definitionOf(name, reward));
}

/** Whether `name` is reserved for a built-in reward. */
export const isBuiltIn = (name: string): boolean => builtInNames.has(name);

/** Every known reward, sorted by name. */
export function listRewards(): RewardDefinition[] {
  return [...registry.values()].sort((a, b) => a.name.localeCompare(b.name, 'en'));
}

/** The reward `name` with checked parameters. Throws BAD_CONFIG for an unknown name or parameter. */
export function resolveReward(name: string, params: Readonly<Record<string, unknown>> = {}): BoundReward {
  const definition = registry.get(name);
  if (definition === undefined) {
    const known = [...registry.keys()];
    throw badUsage(
      `Unknown reward ${shownJson(name)}${didYouMean(name, known)} (known: ${known.sort().join(', ')})`,
    );
  }
  return definition.bind(params);
}
