/** Supervised fine-tuning: a warm start before GRPO. */
export { describeSft } from './describe';
export type { SftEvent, SftSummary } from './events';
export { sft, type SftOptions } from './sft';
