export { VllmSampler } from './sampler';
export { completionLimitMs } from './pool';
