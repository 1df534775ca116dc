/** Moving averages of what a batch of completions tells, and the marks they are compared with. Plain JSON. */
import type { StepMetrics } from '../types';
import type { MonitorSettings } from './settings';

/** Name in the monitor -> name in metrics.jsonl. */
const SIGNALS = {
  accuracy: 'accuracy/mean',
  accuracySpread: 'accuracy/group_std',
  thinking: 'thinking/mean',
  thinkingCorrect: 'thinking/correct_mean',
  thinkingWrong: 'thinking/wrong_mean',
  spreadCorrect: 'thinking/correct_group_std',
  spreadWrong: 'thinking/wrong_group_std',
  allWrong: 'accuracy/groups_all_wrong',
  allCorrect: 'accuracy/groups_all_correct',
  brevity: 'advantages/brevity',
  zeroStd: 'frac_reward_zero_std',
  entropy: 'entropy',
  truncated: 'completions/clipped_ratio',
} as const;

export type Signal = keyof typeof SIGNALS | 'advantage';

/** A weighted sum and the sum of the weights: their ratio is the average, also of the first few values. */
interface Average {
  sum: number;
  weight: number;
}

export interface Averages {
  /** Generated batches seen. */
  batches: number;
  moving: Partial<Record<Signal, Average>>;
  /** Plain sums over the first batches. */
  base: Partial<Record<Signal, Average>>;
  /** Extremes of the moving averages since enough groups were seen. */
  highest: Partial<Record<Signal, number>>;
  lowest: Partial<Record<Signal, number>>;
}

export const NO_AVERAGES: Averages = { batches: 0, moving: {}, base: {}, highest: {}, lowest: {} };

const ratio = (average: Average | undefined) =>
  average === undefined || average.weight === 0 ? null : average.sum / average.weight;

export const moving = (averages: Averages, signal: Signal) => ratio(averages.moving[signal]);
export const ofBase = (averages: Averages, signal: Signal) => ratio(averages.base[signal]);

/** The signals of one line of metrics; those it lacks (no wrong answer in the batch) are left out. */
function signalsOf(metrics: StepMetrics): Partial<Record<Signal, number>> {
  const found: Partial<Record<Signal, number>> = {};
  for (const [signal, name] of Object.entries(SIGNALS)) {
    const value = metrics[name];
    if (value !== undefined && Number.isFinite(value)) found[signal as Signal] = value;
  }
  const [low, high] = [metrics['advantages/min'], metrics['advantages/max']];
  if (low !== undefined && high !== undefined) found.advantage = Math.max(-low, high);
  return found;
}

/** Whether the averages span enough groups to be judged. */
export const isWarm = (averages: Averages, settings: MonitorSettings, groupsPerBatch: number) =>
  averages.batches * groupsPerBatch >= settings.spanGroups;

/**
 * The averages after one more batch of `groupsPerBatch` groups. An exponential moving average of span n in groups weighs
 * each group 2 / (n + 1), so the same span means the same noise whatever the size of a batch.
 */
export function withBatch(
  before: Averages,
  metrics: StepMetrics,
  settings: MonitorSettings,
  groupsPerBatch: number,
): Averages {
  const keep = (1 - 2 / (settings.spanGroups + 1)) ** groupsPerBatch;
  const after: Averages = {
    batches: before.batches + 1,
    moving: { ...before.moving },
    base: { ...before.base },
    highest: { ...before.highest },
    lowest: { ...before.lowest },
  };
  const warm = isWarm(after, settings, groupsPerBatch);
  for (const [name, value] of Object.entries(signalsOf(metrics))) {
    const signal = name as Signal;
    const { sum, weight } = before.moving[signal] ?? { sum: 0, weight: 0 };
    after.moving[signal] = { sum: keep * sum + (1 - keep) * value, weight: keep * weight + (1 - keep) };
    if (before.batches < settings.baseSteps) {
      const base = before.base[signal] ?? { sum: 0, weight: 0 };
      after.base[signal] = { sum: base.sum + value, weight: base.weight + 1 };
    }
    if (!warm) continue;
    const now = moving(after, signal)!;
    after.highest[signal] = Math.max(before.highest[signal] ?? -Infinity, now);
    after.lowest[signal] = Math.min(before.lowest[signal] ?? Infinity, now);
  }
  return after;
}
