export { batchAdvantages } from './advantages';
export type { WeightedReward } from './context';
export { describeNonFinite, type StepPhase } from './non-finite';
export { observeBatch, scoreBatch } from './rewards';
