/** Moving averages of batch statistics. Plain JSON. */
import type { KnownMetrics, MetricName } from '../base/metric-names';
import { READ } from './names';
import type { MonitorSettings } from '../config';

interface SignalInfo {
  /** The metric averaged, or how to compute it. */
  of: MetricName | ((metrics: KnownMetrics) => number | undefined);
  /** Factor on `spanGroups`. */
  span?: number;
  /** The metric in which the average is written. */
  as?: MetricName;
}

/**
 * Brevity may pay for a while in a run whose budget is about to take hold, so it is also judged over a longer span;
 * lengths vary little, and after a fall there are few correct answers to see how short they had become.
 */
const SIGNALS = {
  accuracy: { of: READ.accuracy, as: 'monitor/accuracy' },
  lastingAccuracy: { of: READ.accuracy, span: 2.5 },
  accuracySpread: { of: READ.accuracySpread, as: 'monitor/accuracy_spread' },
  thinking: { of: READ.thinking, as: 'monitor/thinking' },
  lastingThinking: { of: READ.thinking, span: 2.5 },
  thinkingCorrect: { of: READ.thinkingCorrect, as: 'monitor/thinking_correct' },
  recentCorrect: { of: READ.thinkingCorrect, span: 0.25 },
  thinkingWrong: { of: READ.thinkingWrong, as: 'monitor/thinking_wrong' },
  spreadCorrect: { of: READ.spreadCorrect, as: 'monitor/spread_correct' },
  spreadWrong: { of: READ.spreadWrong, as: 'monitor/spread_wrong' },
  allWrong: { of: READ.allWrong, as: 'monitor/all_wrong' },
  allCorrect: { of: READ.allCorrect, as: 'monitor/all_correct' },
  brevity: { of: READ.brevity, as: 'monitor/brevity' },
  lastingBrevity: { of: READ.brevity, span: 2.5 },
  zeroStd: { of: READ.zeroStd, as: 'monitor/zero_std' },
  entropy: { of: READ.entropy, as: 'monitor/entropy' },
  truncated: { of: READ.truncated, as: 'monitor/truncated' },
  advantage: { of: largestAdvantage, as: 'monitor/advantage' },
  answer: { of: answerOf, as: 'monitor/answer' },
} as const satisfies Readonly<Record<string, SignalInfo>>;

export type Signal = keyof typeof SIGNALS;

/** Every signal with what is known of it. */
export const signalEntries = () => Object.entries(SIGNALS) as [Signal, SignalInfo][];

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

function largestAdvantage(metrics: KnownMetrics): number | undefined {
  const { [READ.lowestAdvantage]: low, [READ.highestAdvantage]: high } = metrics;
  return low === undefined || high === undefined ? undefined : Math.max(-low, high);
}

/** The signals of one line of metrics, without those it lacks (as when no answer is wrong). */
function signalsOf(metrics: KnownMetrics): [Signal, number][] {
  return signalEntries().flatMap(([signal, { of }]): [Signal, number][] => {
    const value = typeof of === 'string' ? metrics[of] : of(metrics);
    return value !== undefined && Number.isFinite(value) ? [[signal, value]] : [];
  });
}

/** Whether the averages span enough groups to be judged. */
export const isWarm = (averages: Averages, settings: MonitorSettings) =>
  averages.groups >= settings.spanGroups;

/** The share of an average that is left after a batch. */
function kept(signal: Signal, groups: number, { spanGroups }: MonitorSettings): number {
  const { span = 1 }: SignalInfo = SIGNALS[signal];
  return (1 - 2 / (spanGroups * span + 1)) ** groups;
}

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
  for (const [signal, value] of signalsOf(metrics)) {
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
