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
  /** `points`: measured at some steps only (evaluations), so each is marked. Default `line`. */
  as?: 'line' | 'points';
}

export interface TimeFigure {
  /** Stable: part of file names and addresses. */
  id: string;
  title: string;
  /** What is on the y axis, with its unit. */
  axis: string;
  unit: Unit;
  lines: readonly FigureLine[];
  /** Values of single steps vary much: they are drawn faintly behind a moving average. */
  smooth?: boolean;
  /** The y axis begins at 0. */
  fromZero?: boolean;
  /** Lines are parts of a whole, drawn on top of each other. */
  stacked?: boolean;
}

export interface FigureGroup {
  title: string;
  figures: readonly TimeFigure[];
}

export const FIGURE_GROUPS: readonly FigureGroup[] = [
  {
    title: 'Accuracy and length',
    figures: [
      {
        id: 'accuracy',
        title: 'Accuracy',
        axis: 'correct answers (%)',
        unit: 'fraction',
        smooth: true,
        lines: [
          { metric: 'accuracy/mean', label: 'training' },
          { metric: 'eval/sampled_accuracy', label: 'evaluation, sampled', as: 'points' },
          { metric: 'eval/greedy_accuracy', label: 'evaluation, greedy', as: 'points' },
        ],
      },
      {
        id: 'thinking',
        title: 'Thinking tokens',
        axis: 'tokens in the thinking block, mean',
        unit: 'tokens',
        smooth: true,
        fromZero: true,
        lines: [
          { metric: 'thinking/mean', label: 'training' },
          { metric: 'eval/sampled_thinking_tokens', label: 'evaluation, sampled', as: 'points' },
          { metric: 'eval/greedy_thinking_tokens', label: 'evaluation, greedy', as: 'points' },
        ],
      },
      {
        id: 'correct-wrong',
        title: 'Thinking of correct and wrong answers',
        axis: 'tokens in the thinking block, mean',
        unit: 'tokens',
        smooth: true,
        fromZero: true,
        lines: [
          { metric: 'thinking/correct_mean', label: 'correct' },
          { metric: 'thinking/wrong_mean', label: 'wrong' },
        ],
      },
      {
        id: 'answer',
        title: 'Answer tokens',
        axis: 'tokens outside thinking, mean',
        unit: 'tokens',
        smooth: true,
        fromZero: true,
        lines: [
          { metric: 'completions/answer_length', label: 'answer' },
          { metric: 'thinking/later_blocks_mean', label: 'later thinking blocks' },
        ],
      },
      {
        id: 'truncation',
        title: 'Truncation and format',
        axis: 'share of completions (%)',
        unit: 'fraction',
        smooth: true,
        fromZero: true,
        lines: [
          { metric: 'completions/clipped_ratio', label: 'cut off at the limit' },
          { metric: 'accuracy/format', label: 'right format' },
          { metric: 'thinking/closed_ratio', label: 'thinking closed' },
        ],
      },
      {
        id: 'reward',
        title: 'Reward',
        axis: 'reward, mean over completions',
        unit: 'number',
        smooth: true,
        lines: [
          { metric: 'reward', label: 'mean' },
          { metric: 'reward_std', label: 'standard deviation' },
        ],
      },
    ],
  },
  {
    title: 'Controller',
    figures: [
      {
        id: 'alpha',
        title: 'Strength of the bonus, alpha',
        axis: 'weight',
        unit: 'number',
        fromZero: true,
        lines: [
          { metric: 'acoer/alpha', label: 'alpha' },
          { metric: 'a-dlp/lambda', label: 'lambda' },
        ],
      },
      {
        id: 'budget',
        title: 'Thinking budget',
        axis: 'tokens',
        unit: 'tokens',
        fromZero: true,
        lines: [
          { metric: 'acoer/budget', label: 'budget' },
          { metric: 'acoer/ema_correct_length', label: 'EMA of correct lengths' },
          { metric: 'laser-d/target_high', label: 'target, easy' },
          { metric: 'laser-d/target_medium', label: 'target, medium' },
          { metric: 'laser-d/target_low', label: 'target, hard' },
        ],
      },
      {
        id: 'ema-accuracy',
        title: "The controller's accuracy",
        axis: 'moving average (%)',
        unit: 'fraction',
        lines: [
          { metric: 'acoer/ema_accuracy', label: 'EMA' },
          { metric: 'short-rl/best_accuracy', label: 'best so far' },
        ],
      },
      {
        id: 'pressure',
        title: 'Pressure on length',
        axis: 'share (%)',
        unit: 'fraction',
        smooth: true,
        fromZero: true,
        lines: [
          { metric: 'advantages/same_verdict_share', label: 'advantage within a verdict' },
          { metric: 'advantages/brevity', label: 'shorter preferred' },
          { metric: 'monitor/pressure', label: 'left after rollbacks' },
        ],
      },
    ],
  },
  {
    title: 'Collapse guard',
    figures: [
      {
        id: 'monitor-accuracy',
        title: 'Accuracy as the monitor sees it',
        axis: 'moving average (%)',
        unit: 'fraction',
        lines: [
          { metric: 'monitor/accuracy', label: 'average' },
          { metric: 'monitor/accuracy_peak', label: 'its peak' },
        ],
      },
      {
        id: 'groups',
        title: 'Groups without a signal',
        axis: 'share of groups (%)',
        unit: 'fraction',
        smooth: true,
        fromZero: true,
        lines: [
          { metric: 'frac_reward_zero_std', label: 'equal rewards' },
          { metric: 'accuracy/groups_all_correct', label: 'all correct' },
          { metric: 'accuracy/groups_all_wrong', label: 'all wrong' },
        ],
      },
      {
        id: 'spread',
        title: 'Spread of thinking within a group',
        axis: 'standard deviation (tokens)',
        unit: 'tokens',
        smooth: true,
        fromZero: true,
        lines: [
          { metric: 'thinking/correct_group_std', label: 'correct' },
          { metric: 'thinking/wrong_group_std', label: 'wrong' },
        ],
      },
    ],
  },
  {
    title: 'Policy',
    figures: [
      {
        id: 'entropy',
        title: 'Entropy',
        axis: 'nats per token',
        unit: 'number',
        smooth: true,
        fromZero: true,
        lines: [{ metric: 'entropy', label: 'entropy' }],
      },
      {
        id: 'kl',
        title: 'Divergence from the base model',
        axis: 'KL estimate, nats per token',
        unit: 'number',
        smooth: true,
        fromZero: true,
        lines: [{ metric: 'kl', label: 'KL' }],
      },
      {
        id: 'clipping',
        title: 'Clipped tokens',
        axis: 'share of tokens (%)',
        unit: 'fraction',
        smooth: true,
        fromZero: true,
        lines: [
          { metric: 'clip_ratio/low_mean', label: 'from below' },
          { metric: 'clip_ratio/high_mean', label: 'from above' },
          { metric: 'cispo_clip_ratio', label: 'capped' },
        ],
      },
      {
        id: 'loss',
        title: 'Loss',
        axis: 'loss',
        unit: 'number',
        smooth: true,
        lines: [
          { metric: 'loss', label: 'training' },
          { metric: 'eval/loss', label: 'held out', as: 'points' },
        ],
      },
      {
        id: 'grad-norm',
        title: 'Gradient norm',
        axis: 'norm before clipping',
        unit: 'number',
        smooth: true,
        fromZero: true,
        lines: [{ metric: 'grad_norm', label: 'norm' }],
      },
      {
        id: 'learning-rate',
        title: 'Learning rate',
        axis: 'rate',
        unit: 'rate',
        fromZero: true,
        lines: [{ metric: 'learning_rate', label: 'rate' }],
      },
      {
        id: 'sampler-gap',
        title: 'Sampler against trainer',
        axis: '|difference of log-probs|, nats',
        unit: 'rate',
        fromZero: true,
        lines: [
          { metric: 'sampling/sampling_logp_difference/mean', label: 'mean' },
          { metric: 'sampling/sampling_logp_difference/max', label: 'largest' },
        ],
      },
    ],
  },
  {
    title: 'Time and memory',
    figures: [
      {
        id: 'step-time',
        title: 'Time of a step',
        axis: 'seconds',
        unit: 'seconds',
        stacked: true,
        fromZero: true,
        lines: [
          { metric: 'time/generate', label: 'generate' },
          { metric: 'time/reward', label: 'reward' },
          { metric: 'time/score', label: 'score' },
          { metric: 'time/train', label: 'train' },
          { metric: 'time/optimizer', label: 'optimiser' },
        ],
      },
      {
        id: 'throughput',
        title: 'Generation',
        axis: 'new tokens per second',
        unit: 'number',
        smooth: true,
        fromZero: true,
        lines: [{ metric: 'time/generated_tokens_per_second', label: 'tokens/s' }],
      },
      {
        id: 'memory',
        title: 'Memory',
        axis: 'bytes',
        unit: 'bytes',
        fromZero: true,
        lines: [
          { metric: 'memory/resident_bytes', label: 'process' },
          { metric: 'memory/engine_bytes', label: 'engine' },
          { metric: 'memory/device_used_bytes', label: 'all programs' },
        ],
      },
    ],
  },
];

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
