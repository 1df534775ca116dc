export {
  batchAdvantages,
  computeAdvantages,
  type Advantages,
  type AdvantageSettings,
  type BatchAdvantages,
  type RewardScale,
} from './advantages';
export type { WeightedReward } from './context';
export { describeNonFinite, type NonFinite, type StepPhase } from './non-finite';
export { observeBatch, scoreBatch, type BatchRewards, type RewardSettings } from './rewards';
export { scheduleFactor, warmupSteps, type Schedule, type ScheduleName } from './schedule';
