/** A reward given as a plain function. */
import type { Group, Prompt, Rollout } from '../types';
import { AcoerError } from '../errors';
import { stateless } from './stateless';
import type { RewardDefinition } from './types';

/** A rollout as a reward function sees it. */
export interface UserRollout extends Rollout {
  /** The verdict in short. */
  correct: boolean;
}

export interface UserGroup {
  prompt: Prompt;
  rollouts: UserRollout[];
}

/** The reward of `rollout`, one of `group`'s. */
export type RewardFunction = (rollout: UserRollout, group: UserGroup) => number | Promise<number>;

const userRollout = (rollout: Rollout): UserRollout => ({ ...rollout, correct: rollout.verdict.correct });

/** One view per group, so that `rollout` is found in `group.rollouts` and n samples cost n copies, not n^2. */
function viewer(): (group: Group) => UserGroup {
  const views = new WeakMap<Group, UserGroup>();
  return (group) => {
    let view = views.get(group);
    if (view === undefined) {
      view = { prompt: group.prompt, rollouts: group.rollouts.map(userRollout) };
      views.set(group, view);
    }
    return view;
  };
}

export function fromFunction(name: string, reward: RewardFunction): RewardDefinition {
  return {
    name,
    summary: 'Registered by the program that runs.',
    formula: 'a function of (rollout, group)',
    source: 'registerReward',
    defaults: {},
    bind(parameters) {
      const [unknown] = Object.keys(parameters);
      if (unknown !== undefined) {
        throw new AcoerError(
          'BAD_CONFIG',
          `Reward "${name}" is a function and takes no parameter ${unknown}`,
        );
      }
      const view = viewer();
      return stateless(name, async (rollout, { group }) => {
        const seen = view(group);
        const own = seen.rollouts[group.rollouts.indexOf(rollout)] ?? userRollout(rollout);
        return { value: await reward(own, seen) };
      });
    },
  };
}
