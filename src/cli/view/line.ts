/** One step as one line. */
import type { StepMetrics } from '../../types';
import { duration, percent } from './format';

export interface StepLine {
  index: number;
  maxSteps: number;
  metrics: StepMetrics;
  leftMs: number | null;
}

/** Alpha and budget are shown only when the reward has them; a step refused before its batch was made has no numbers. */
export function stepLine({ index, maxSteps, metrics, leftMs }: StepLine): string {
  const fields = [`step ${String(index).padStart(String(maxSteps).length)}/${maxSteps}`];
  const accuracy = metrics['accuracy/mean'];
  if (accuracy !== undefined) {
    fields.push(
      `accuracy ${percent(accuracy).padStart(6)}`,
      `thinking ${(metrics['thinking/mean'] ?? NaN).toFixed(1).padStart(6)}`,
      `reward ${(metrics.reward ?? NaN).toFixed(3)}`,
    );
  }
  const alpha = metrics['acoer/alpha'];
  const budget = metrics['acoer/budget'];
  if (alpha !== undefined) fields.push(`alpha ${alpha.toFixed(3)}`);
  if (budget !== undefined) fields.push(`budget ${budget.toFixed(0).padStart(3)}`);
  if (metrics.update_applied === 0) fields.push('refused');
  if (leftMs !== null) fields.push(`${duration(leftMs)} left`);
  return fields.join('  ');
}
