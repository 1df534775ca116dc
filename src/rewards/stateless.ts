import type { Rollout } from '../types';
import type { BoundReward, RewardScore, RewardView } from './types';

/** A reward without state. */
export function stateless(
  name: string,
  score: (rollout: Rollout, view: RewardView<null>) => RewardScore | Promise<RewardScore>,
): BoundReward {
  return {
    name,
    initialState: () => null,
    observe: () => null,
    score: (rollout, view) => score(rollout, { ...view, state: null }),
    metrics: () => ({}),
  };
}
