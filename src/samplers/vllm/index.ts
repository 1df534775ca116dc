export { VllmSampler, type VllmParts, type VllmSettings } from './sampler';
export { completionLimitMs } from './pool';
export { serverAddress } from './server';
