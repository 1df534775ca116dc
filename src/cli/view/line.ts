/** One training step as one line. */
import type { KnownMetrics } from '../../base/metric-names';
import { duration, percent } from '../../base/text';

export interface StepLine {
  index: number;
  maxSteps: number;
  metrics: KnownMetrics;
  leftMs: number | null;
  /** Columns available; the least important fields are dropped first. Default: no limit. */
  width?: number;
}

type Field = 'step' | 'accuracy' | 'thinking' | 'reward' | 'alpha' | 'budget' | 'refused' | 'left';

/** Fields in the order in which they are dropped on a narrow terminal. */
const SPARE: readonly Field[] = ['reward', 'alpha', 'budget', 'left'];

const abbreviated = (line: string): string =>
  line.replace('accuracy', 'acc').replace('thinking', 'think').replaceAll(/ +/g, ' ');

/** Alpha and budget appear only if the reward has them; a step refused early has no numbers at all. */
export function stepLine({ index, maxSteps, metrics, leftMs, width = Infinity }: StepLine): string {
  const fields = new Map<Field, string>();
  fields.set('step', `step ${String(index).padStart(String(maxSteps).length)}/${maxSteps}`);
  const accuracy = metrics['accuracy/mean'];
  if (accuracy !== undefined) {
    fields.set('accuracy', `accuracy ${percent(accuracy).padStart(6)}`);
    fields.set('thinking', `thinking ${(metrics['thinking/mean'] ?? NaN).toFixed(1).padStart(6)}`);
    fields.set('reward', `reward ${(metrics.reward ?? NaN).toFixed(3)}`);
  }
  const alpha = metrics['acoer/alpha'];
  const budget = metrics['acoer/budget'];
  if (alpha !== undefined) fields.set('alpha', `alpha ${alpha.toFixed(3)}`);
  if (budget !== undefined) fields.set('budget', `budget ${budget.toFixed(0).padStart(3)}`);
  if (metrics.update_applied === 0) fields.set('refused', 'refused');
  if (leftMs !== null) fields.set('left', `${duration(leftMs)} left`);
  const line = () => [...fields.values()].join('  ');
  for (const field of SPARE) if (line().length > width) fields.delete(field);
  return line().length > width ? abbreviated(line()) : line();
}
