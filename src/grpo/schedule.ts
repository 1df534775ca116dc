/** Learning-rate schedules with linear warm-up, equal to transformers' `get_*_schedule_with_warmup`. */

export type ScheduleName = 'linear' | 'cosine' | 'constant';

export interface Schedule {
  type: ScheduleName;
  warmupSteps: number;
  totalSteps: number;
}

/** Warm-up steps as Hugging Face's Trainer rounds them. */
export function warmupSteps(warmupRatio: number, totalSteps: number): number {
  return Math.ceil(totalSteps * warmupRatio);
}

/** Factor on the peak rate for update number `step`, from 0. A warm-up starts at 0, as in transformers. */
export function scheduleFactor(schedule: Schedule, step: number): number {
  const { type, warmupSteps: warmup, totalSteps } = schedule;
  if (step < warmup) return step / Math.max(1, warmup);
  if (type === 'constant') return 1;
  const remaining = Math.max(1, totalSteps - warmup);
  if (type === 'linear') return Math.max(0, (totalSteps - step) / remaining);
  return Math.max(0, 0.5 * (1 + Math.cos(Math.PI * 0.5 * 2 * ((step - warmup) / remaining))));
}
