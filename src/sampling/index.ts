export { disposeSampler, follow, openSampler, sampleChecked, type SamplingBorder } from './checked';
export { DEFAULT_SLOTS, generateFitting, SlotLimit, untilItFits } from './fitting';
export { DecodeTracker, type Decoding, type InFlight, type SampleProgress } from './progress';
export {
  type Completion,
  EngineSampler,
  requestOf,
  type SampledCompletion,
  type SamplePrompt,
  type Sampler,
  type SampleSettings,
  type SampleStats,
} from './sampler';
export { type Piece, windows } from './windows';
