/** Supervised fine-tuning: a warm start before GRPO. */
export { goOn } from './card';
export { resolveSft, type SftConfig, type SftInput } from './config';
export { describeSft } from './config';
export type { SftEvent, SftSummary } from '../life/events';
export { sft, SFT_CALL, type SftOptions } from './sft';
