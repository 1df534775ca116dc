/**
 * The figures over a run's steps, as data: `acoer report` draws them as SVG, the live page of `acoer watch`
 * in the browser. This file is part of both pages, so it imports nothing at run time.
 */
import type { MetricName } from '../base/metric-names';

/** How values are written on axes and in tables; `fraction` is shown in percent. */
export type Unit = 'fraction' | 'tokens' | 'seconds' | 'bytes' | 'rate' | 'number';

export interface FigureLine {
  metric: MetricName;
  label: string;
  /** `points`: measured at some steps only (evaluations), so each is marked. */
  as: 'line' | 'points';
}

interface Drawn {
  /** Values of single steps vary much: they are drawn faintly behind a moving average. */
  smooth?: boolean;
  /** The y axis begins at 0. */
  fromZero?: boolean;
  /** Lines are parts of a whole, drawn on top of each other. */
  stacked?: boolean;
}

export interface TimeFigure extends Drawn {
  /** Stable: part of file names and addresses. */
  id: string;
  title: string;
  /** What is on the y axis, with its unit. */
  axis: string;
  unit: Unit;
  lines: readonly FigureLine[];
}

export interface FigureGroup {
  title: string;
  figures: readonly TimeFigure[];
}

const PLAIN: Drawn = {};
const SMOOTH: Drawn = { smooth: true };
const FROM_ZERO: Drawn = { fromZero: true };
const SMOOTH_FROM_ZERO: Drawn = { smooth: true, fromZero: true };

/** @param metrics of the lines, by their labels */
const figure = (
  id: string,
  title: string,
  axis: string,
  unit: Unit,
  drawn: Drawn,
  metrics: Readonly<Record<string, MetricName>>,
): TimeFigure => {
  const lines = Object.entries(metrics).map(([label, metric]): FigureLine => {
    return { label, metric, as: metric.startsWith('eval/') ? 'points' : 'line' };
  });
  return { id, title, axis, unit, ...drawn, lines };
};

const GROUPS: Readonly<Record<string, readonly TimeFigure[]>> = {
  'Accuracy and length': [
    figure('accuracy', 'Accuracy', 'correct answers (%)', 'fraction', SMOOTH, {
      training: 'accuracy/mean',
      'evaluation, sampled': 'eval/sampled_accuracy',
      'evaluation, greedy': 'eval/greedy_accuracy',
    }),
    figure('thinking', 'Thinking tokens', 'tokens in the thinking block, mean', 'tokens', SMOOTH_FROM_ZERO, {
      training: 'thinking/mean',
      'evaluation, sampled': 'eval/sampled_thinking_tokens',
      'evaluation, greedy': 'eval/greedy_thinking_tokens',
    }),
    figure(
      'correct-wrong',
      'Thinking of correct and wrong answers',
      'tokens in the thinking block, mean',
      'tokens',
      SMOOTH_FROM_ZERO,
      { correct: 'thinking/correct_mean', wrong: 'thinking/wrong_mean' },
    ),
    figure('answer', 'Answer tokens', 'tokens outside thinking, mean', 'tokens', SMOOTH_FROM_ZERO, {
      answer: 'completions/answer_length',
      'later thinking blocks': 'thinking/later_blocks_mean',
    }),
    figure('truncation', 'Truncation and format', 'share of completions (%)', 'fraction', SMOOTH_FROM_ZERO, {
      'cut off at the limit': 'completions/clipped_ratio',
      'right format': 'accuracy/format',
      'thinking closed': 'thinking/closed_ratio',
    }),
    figure('reward', 'Reward', 'reward, mean over completions', 'number', SMOOTH, {
      mean: 'reward',
      'standard deviation': 'reward_std',
    }),
  ],
  Controller: [
    figure('alpha', 'Strength of the bonus, alpha', 'weight', 'number', FROM_ZERO, {
      alpha: 'acoer/alpha',
      lambda: 'a-dlp/lambda',
    }),
    figure('budget', 'Thinking budget', 'tokens', 'tokens', FROM_ZERO, {
      budget: 'acoer/budget',
      'EMA of correct lengths': 'acoer/ema_correct_length',
      'target, easy': 'laser-d/target_high',
      'target, medium': 'laser-d/target_medium',
      'target, hard': 'laser-d/target_low',
    }),
    figure('ema-accuracy', "The controller's accuracy", 'moving average (%)', 'fraction', PLAIN, {
      EMA: 'acoer/ema_accuracy',
      'best so far': 'short-rl/best_accuracy',
    }),
    figure('pressure', 'Pressure on length', 'share (%)', 'fraction', SMOOTH_FROM_ZERO, {
      'advantage within a verdict': 'advantages/same_verdict_share',
      'shorter preferred': 'advantages/brevity',
      'left after rollbacks': 'monitor/pressure',
    }),
  ],
  'Collapse guard': [
    figure('monitor-accuracy', 'Accuracy as the monitor sees it', 'moving average (%)', 'fraction', PLAIN, {
      average: 'monitor/accuracy',
      'its peak': 'monitor/accuracy_peak',
    }),
    figure('groups', 'Groups without a signal', 'share of groups (%)', 'fraction', SMOOTH_FROM_ZERO, {
      'equal rewards': 'frac_reward_zero_std',
      'all correct': 'accuracy/groups_all_correct',
      'all wrong': 'accuracy/groups_all_wrong',
    }),
    figure(
      'spread',
      'Spread of thinking within a group',
      'standard deviation (tokens)',
      'tokens',
      SMOOTH_FROM_ZERO,
      { correct: 'thinking/correct_group_std', wrong: 'thinking/wrong_group_std' },
    ),
  ],
  Policy: [
    figure('entropy', 'Entropy', 'nats per token', 'number', SMOOTH_FROM_ZERO, { entropy: 'entropy' }),
    figure(
      'kl',
      'Divergence from the base model',
      'KL estimate, nats per token',
      'number',
      SMOOTH_FROM_ZERO,
      { KL: 'kl' },
    ),
    figure('clipping', 'Clipped tokens', 'share of tokens (%)', 'fraction', SMOOTH_FROM_ZERO, {
      'from below': 'clip_ratio/low_mean',
      'from above': 'clip_ratio/high_mean',
      capped: 'cispo_clip_ratio',
    }),
    figure('loss', 'Loss', 'loss', 'number', SMOOTH, { training: 'loss', 'held out': 'eval/loss' }),
    figure('grad-norm', 'Gradient norm', 'norm before clipping', 'number', SMOOTH_FROM_ZERO, {
      norm: 'grad_norm',
    }),
    figure('learning-rate', 'Learning rate', 'rate', 'rate', FROM_ZERO, { rate: 'learning_rate' }),
    figure('sampler-gap', 'Sampler against trainer', '|difference of log-probs|, nats', 'rate', FROM_ZERO, {
      mean: 'sampling/sampling_logp_difference/mean',
      largest: 'sampling/sampling_logp_difference/max',
    }),
  ],
  'Time and memory': [
    figure(
      'step-time',
      'Time of a step',
      'seconds',
      'seconds',
      { stacked: true, fromZero: true },
      {
        generate: 'time/generate',
        reward: 'time/reward',
        score: 'time/score',
        train: 'time/train',
        optimiser: 'time/optimizer',
      },
    ),
    figure('throughput', 'Generation', 'new tokens per second', 'number', SMOOTH_FROM_ZERO, {
      'tokens/s': 'time/generated_tokens_per_second',
    }),
    figure('ranks-speed', 'Generation by rank', 'new tokens per second', 'number', SMOOTH_FROM_ZERO, {
      'fastest rank': 'ranks/tokens_per_second/max',
      'slowest rank': 'ranks/tokens_per_second/min',
    }),
    figure('ranks-wait', 'Waiting for other ranks', 'seconds of a step', 'seconds', SMOOTH_FROM_ZERO, {
      'the longest': 'ranks/wait_seconds/max',
      mean: 'ranks/wait_seconds/mean',
    }),
    figure('memory', 'Memory', 'bytes', 'bytes', FROM_ZERO, {
      process: 'memory/resident_bytes',
      engine: 'memory/engine_bytes',
      'all programs': 'memory/device_used_bytes',
    }),
  ],
};

export const FIGURE_GROUPS: readonly FigureGroup[] = Object.entries(GROUPS).map(([title, figures]) => {
  return { title, figures };
});

export const TIME_FIGURES: readonly TimeFigure[] = FIGURE_GROUPS.flatMap(({ figures }) => figures);

/** Metrics that some figure shows. */
export const FIGURE_METRICS: readonly MetricName[] = [
  ...new Set(TIME_FIGURES.flatMap(({ lines }) => lines.map(({ metric }) => metric))),
];

/** Centred moving average over `2 * reach + 1` values, ignoring those that are missing. */
export function smoothed(
  values: readonly (number | null)[],
  reach = Math.max(1, Math.round(values.length / 50)),
): (number | null)[] {
  return values.map((value, i) => {
    if (value === null) return null;
    let [sum, count] = [0, 0];
    for (let j = Math.max(0, i - reach); j <= Math.min(values.length - 1, i + reach); j++) {
      const near = values[j];
      if (near === null || near === undefined) continue;
      sum += near;
      count++;
    }
    return sum / count;
  });
}

const SI = ['', 'k', 'M', 'G', 'T'];

function scaled(value: number, suffixes: readonly string[], gap = ''): string {
  const power = Math.max(0, Math.min(suffixes.length - 1, Math.floor(Math.log10(Math.abs(value)) / 3)));
  const size = value / 1000 ** (Number.isFinite(power) ? power : 0);
  return `${Number(size.toPrecision(3))}${gap}${suffixes[Number.isFinite(power) ? power : 0]}`;
}

/** A value as text; its unit is on the axis, except for percent and the prefix of bytes. */
export function formatValue(value: number, unit: Unit): string {
  switch (unit) {
    case 'fraction':
      return `${Number((100 * value).toFixed(1))}%`;
    case 'bytes':
      return `${scaled(value, SI, ' ')}B`;
    case 'tokens':
      if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en-US');
      return String(Number(Math.abs(value) >= 1 ? value.toFixed(1) : value.toPrecision(2)));
    case 'seconds':
      return `${Number(value.toPrecision(3))} s`;
    case 'rate':
      return value === 0 ? '0' : value.toExponential(1).replace(/\.0e/, 'e').replace('e+', 'e');
    case 'number':
      return Math.abs(value) >= 10_000 ? scaled(value, SI) : String(Number(value.toPrecision(3)));
  }
}
