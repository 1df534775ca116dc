/** The clipped losses: grpo, bnpo, dr_grpo, dapo and luspo differ only in what they divide by. */
import { maximum, minimum, sum } from '../base/statistics';
import type { KnownMetrics } from '../base/metric-names';
import { sumOverTokens, type TokenRule } from './tokens';
import type {
  LossBatch,
  LossDefinition,
  LossResult,
  LossSettings,
  NormalizerCounts,
  SequenceMeasures,
} from './types';

/** -min(min(w, delta) A, clip(w, 1 - epsilonLow, 1 + epsilonHigh) A), summed over tokens. */
function clippedLoss(batch: LossBatch, settings: LossSettings, meanOfSequence: boolean): LossResult {
  const { delta } = settings;
  const [low, high] = [1 - settings.epsilonLow, 1 + settings.epsilonHigh];
  const clippedLow = new Float64Array(batch.advantages.length);
  const clippedHigh = new Float64Array(batch.advantages.length);
  const added = sumOverTokens(batch, settings, {
    meanOfSequence,
    ruleOf({ index, active, advantage }): TokenRule {
      const share = 1 / Math.max(active, 1);
      return (term, ratio) => {
        const first = delta === null ? ratio : Math.min(ratio, delta);
        const second = Math.min(Math.max(ratio, low), high);
        const [a, b] = [first * advantage, second * advantage];
        const firstSlope = delta !== null && ratio > delta ? 0 : 1;
        const secondSlope = ratio >= low && ratio <= high ? 1 : 0;
        // A tie splits the gradient between the two sides, as autograd of `minimum` does.
        const part = a < b ? 1 : a > b ? 0 : 0.5;
        term.loss = -Math.min(a, b);
        term.slopeRatio = -advantage * (part * firstSlope + (1 - part) * secondSlope);
        term.slopeLogprob = 0;
        if (first < low && advantage < 0) clippedLow[index]! += share;
        if (first > high && advantage > 0) clippedHigh[index]! += share;
      };
    },
  });
  return { ...added, measures: { clippedLow, clippedHigh } };
}

/** Mean of a measure over the unmasked tokens of an update, or over its sequences when each has one ratio. */
export function clipRatio(
  sequences: readonly SequenceMeasures[],
  level: LossSettings['level'],
  name: string,
): { mean: number; shares: number[] } {
  const counted = level === 'sequence' ? sequences : sequences.filter(({ masked }) => !masked);
  const weights = counted.map(({ tokens }) => (level === 'sequence' ? 1 : tokens));
  // A skipped sequence clips nothing.
  const shares = counted.map(({ measures }) => measures?.[name] ?? 0);
  return { mean: sum(shares.map((share, i) => share * weights[i]!)) / Math.max(1, sum(weights)), shares };
}

function clipMetrics(sequences: readonly SequenceMeasures[], level: LossSettings['level']): KnownMetrics {
  const low = clipRatio(sequences, level, 'clippedLow');
  const high = clipRatio(sequences, level, 'clippedHigh');
  return {
    'clip_ratio/low_mean': low.mean,
    'clip_ratio/high_mean': high.mean,
    'clip_ratio/region_mean': low.mean + high.mean,
    'clip_ratio/low_min': low.shares.length > 0 ? minimum(low.shares) : 0,
    'clip_ratio/high_max': high.shares.length > 0 ? maximum(high.shares) : 0,
  };
}

interface Variant extends Pick<LossDefinition, 'name' | 'summary' | 'formula' | 'normalizer'> {
  meanOfSequence?: boolean;
}

const clipped = ({ meanOfSequence = false, ...variant }: Variant): LossDefinition<Record<never, never>> => ({
  ...variant,
  parameters: {},
  usesDelta: true,
  compute: (batch, settings) => clippedLoss(batch, settings, meanOfSequence),
  metrics: clipMetrics,
});

export const CLIPPED = [
  clipped({
    name: 'grpo',
    summary: 'GRPO: the mean over the tokens of each completion, then over completions.',
    formula: '1/S sum_i 1/|o_i| sum_t -min(w A, clip(w, 1 - epsilon, 1 + epsilonHigh) A)',
    normalizer: ({ sequences }) => sequences,
    meanOfSequence: true,
  }),
  clipped({
    name: 'bnpo',
    summary: 'Like grpo, but the mean over all tokens of the update.',
    formula: '1/T sum_i sum_t -min(w A, clip(w, 1 - epsilon, 1 + epsilonHigh) A), T the tokens of the update',
    normalizer: ({ tokens }) => Math.max(1, tokens),
  }),
  clipped({
    name: 'dr_grpo',
    summary: 'Dr. GRPO: divides by a constant, so that length has no influence.',
    formula: '1/(S maxCompletionLength) sum_i sum_t -min(w A, clip(w, 1 - epsilon, 1 + epsilonHigh) A)',
    normalizer: ({ sequences, maxCompletionLength }) => sequences * maxCompletionLength,
  }),
  clipped({
    name: 'dapo',
    summary: "DAPO: divides by an update's share of the tokens of the generated batch.",
    formula: '1/T sum_i sum_t -min(w A, clip(w, 1 - epsilon, 1 + epsilonHigh) A), T the tokens of the batch',
    normalizer: tokensOfGeneration,
  }),
  clipped({
    name: 'luspo',
    summary:
      'LUSPO: the sum over tokens, averaged over completions; meant for importanceSamplingLevel sequence.',
    formula: '1/S sum_i sum_t -min(w A, clip(w, 1 - epsilon, 1 + epsilonHigh) A)',
    normalizer: ({ sequences }) => sequences,
  }),
];

/** One update's share of the tokens of the generated batch. */
export function tokensOfGeneration({ generationTokens, stepsPerGeneration }: NormalizerCounts): number {
  return Math.max(1, generationTokens) / stepsPerGeneration;
}
