/** The rewards by themselves: the package's entry `acoer/rewards`. */
export type { Group } from '../base/types';
export { listRewards, resolveReward } from './registry';
export type { BoundReward, RewardDefinition } from './types';
