export { batchAdvantages } from './advantages';
export { describeNonFinite, type StepPhase } from './non-finite';
export { observeBatch, scoreBatch } from './rewards';
