/** Moving averages of batch statistics. Plain JSON. */
import type { KnownMetrics } from '../base/metric-names';
import { READ } from './names';
import type { MonitorSettings } from './settings';

/** Name in the monitor -> name in metrics.jsonl. */
const SIGNALS = {
  accuracy: READ.accuracy,
  lastingAccuracy: READ.accuracy,
  accuracySpread: READ.accuracySpread,
  thinking: READ.thinking,
  lastingThinking: READ.thinking,
  thinkingCorrect: READ.thinkingCorrect,
  recentCorrect: READ.thinkingCorrect,
  thinkingWrong: READ.thinkingWrong,
  spreadCorrect: READ.spreadCorrect,
  spreadWrong: READ.spreadWrong,
  allWrong: READ.allWrong,
  allCorrect: READ.allCorrect,
  brevity: READ.brevity,
  lastingBrevity: READ.brevity,
  zeroStd: READ.zeroStd,
  entropy: READ.entropy,
  truncated: READ.truncated,
} as const;

export type Signal = keyof typeof SIGNALS | 'advantage' | 'answer';

/**
 * Factors on `spanGroups`: brevity may pay for a while in a run whose budget is about to take hold; lengths
 * vary little, and after a fall there are few correct answers to see how short they had become.
 */
const SPANS: Partial<Record<Signal, number>> = {
  lastingAccuracy: 2.5,
  lastingBrevity: 2.5,
  lastingThinking: 2.5,
  recentCorrect: 0.25,
};

/** A weighted sum and the sum of the weights: their ratio is the average, even of the first few values. */
interface Average {
  sum: number;
  weight: number;
}

export interface Averages {
  /** Number of groups seen. */
  groups: number;
  moving: Partial<Record<Signal, Average>>;
  /** Unweighted sums over the first batches. */
  base: Partial<Record<Signal, Average>>;
  /** Extremes of the moving averages since enough groups were seen. */
  highest: Partial<Record<Signal, number>>;
  lowest: Partial<Record<Signal, number>>;
}

export const NO_AVERAGES: Averages = { groups: 0, moving: {}, base: {}, highest: {}, lowest: {} };

const ratio = (average: Average | undefined) =>
  average === undefined || average.weight === 0 ? null : average.sum / average.weight;

export const moving = (averages: Averages, signal: Signal) => ratio(averages.moving[signal]);
export const ofBase = (averages: Averages, signal: Signal) => ratio(averages.base[signal]);

/** Mean tokens per completion outside the thinking; estimated if the metrics lack it. */
function answerOf(metrics: KnownMetrics): number | undefined {
  const { [READ.answer]: answer, [READ.length]: length, [READ.thinking]: thinking } = metrics;
  if (answer !== undefined) return answer;
  return length === undefined || thinking === undefined ? undefined : length - thinking;
}

/**
 * The signals of one line of metrics, without those it lacks (such as when no answer in the batch is wrong).
 */
function signalsOf(metrics: KnownMetrics): Partial<Record<Signal, number>> {
  const found: Partial<Record<Signal, number>> = {};
  const put = (signal: Signal, value: number | undefined) => {
    if (value !== undefined && Number.isFinite(value)) found[signal] = value;
  };
  for (const [signal, name] of Object.entries(SIGNALS)) put(signal as Signal, metrics[name]);
  put('answer', answerOf(metrics));
  const { [READ.lowestAdvantage]: low, [READ.highestAdvantage]: high } = metrics;
  if (low !== undefined && high !== undefined) put('advantage', Math.max(-low, high));
  return found;
}

/** Whether the averages span enough groups to be judged. */
export const isWarm = (averages: Averages, settings: MonitorSettings) =>
  averages.groups >= settings.spanGroups;

/** The share of an average that is left after a batch. */
const kept = (signal: Signal, groups: number, { spanGroups }: MonitorSettings): number =>
  (1 - 2 / (spanGroups * (SPANS[signal] ?? 1) + 1)) ** groups;

/** All moving averages aged by a batch, also those of signals that it lacks: what is older counts less. */
function aged(before: Averages, groups: number, settings: MonitorSettings): Averages['moving'] {
  const moving: Averages['moving'] = {};
  for (const [name, { sum, weight }] of Object.entries(before.moving)) {
    const keep = kept(name as Signal, groups, settings);
    moving[name as Signal] = { sum: keep * sum, weight: keep * weight };
  }
  return moving;
}

/**
 * The averages after one more batch of `groups` groups. An exponential moving average of span n in groups
 * weighs each group by 2 / (n + 1), so the same span means the same noise for any batch size.
 */
export function withBatch(
  before: Averages,
  metrics: KnownMetrics,
  settings: MonitorSettings,
  groups: number,
): Averages {
  const after: Averages = {
    groups: before.groups + groups,
    moving: aged(before, groups, settings),
    base: { ...before.base },
    highest: { ...before.highest },
    lowest: { ...before.lowest },
  };
  const warm = isWarm(after, settings);
  for (const [name, value] of Object.entries(signalsOf(metrics))) {
    const signal = name as Signal;
    const own = 1 - kept(signal, groups, settings);
    const { sum, weight } = after.moving[signal] ?? { sum: 0, weight: 0 };
    after.moving[signal] = { sum: sum + own * value, weight: weight + own };
    if (before.groups < settings.baseGroups) {
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

/** How far a moving average is below its highest value; 0 if not known yet. */
export function below(averages: Averages, signal: Signal): number {
  const now = moving(averages, signal);
  return now === null ? 0 : (averages.highest[signal] ?? now) - now;
}

/** How far a moving average is above its lowest value; 0 if not known yet. */
export function above(averages: Averages, signal: Signal): number {
  const now = moving(averages, signal);
  return now === null ? 0 : now - (averages.lowest[signal] ?? now);
}
