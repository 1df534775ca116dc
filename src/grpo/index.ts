export { computeAdvantages, type Advantages, type RewardScale } from './advantages';
export { batchAdvantages, type AdvantageSettings, type BatchAdvantages } from './combine';
export type { WeightedReward } from './context';
export { observeBatch, scoreBatch, type BatchRewards, type RewardSettings } from './rewards';
export type { EvalKind, EvalPhase, Evaluation, RunSummary, TrainEvent, TrainStep } from './events';
export { scheduleFactor, warmupSteps, type Schedule, type ScheduleName } from './schedule';
export { train, type TrainOptions, TrainRun } from './train';
export { closeRewards, resolveTrainConfig } from './inputs';
export { openRewardModule } from './reward-module';
