export { DEFAULT_SLOTS, generateFitting, SlotLimit, untilItFits } from './fitting';
export {
  type Completion,
  EngineSampler,
  requestOf,
  type SamplePrompt,
  type Sampler,
  type SampleSettings,
} from './sampler';
