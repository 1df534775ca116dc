/**
 * What multiplies a token's policy loss before the sum: weights that correct for the difference between
 * sampler and trainer, and masks that drop tokens or whole completions. All are off by default; names and
 * rules are those of TRL 1.13. Add your own weight here.
 */
import { quantile } from '../base/statistics';

export const CORRECTION_MODES = [
  'token_truncate',
  'token_mask',
  'sequence_truncate',
  'sequence_mask',
] as const;

/** TRL's `vllm_importance_sampling_mode` with its bounds; null means no bound. */
export interface ImportanceCorrection {
  mode: (typeof CORRECTION_MODES)[number];
  min: number | null;
  max: number | null;
}

export type RatioBounds = Pick<ImportanceCorrection, 'min' | 'max'>;

/** Whether a ratio of trainer to sampler is one that the bounds change. */
export const isOutside = (ratio: number, { min, max }: RatioBounds): boolean =>
  ratio < (min ?? 0) || ratio > (max ?? Infinity);

interface Tokens {
  /** [B + 1] */
  offsets: Int32Array;
  /** [N] */
  mask: Uint8Array;
}

/**
 * [N] ratios of the policy before the update to the sampler, exp(old - sampled): per token, or the whole sequence's at
 * each token. Outside the bounds, `*_truncate` gives the bound and `*_mask` 0. Masked tokens get 1.
 */
export function importanceWeights(
  { offsets, mask }: Tokens,
  oldLogprobs: Float64Array,
  sampledLogprobs: Float64Array,
  { mode, min, max }: ImportanceCorrection,
): Float64Array {
  const [low, high] = [min ?? 0, max ?? Infinity];
  const bounded = mode.endsWith('truncate')
    ? (ratio: number) => Math.min(Math.max(ratio, low), high)
    : (ratio: number) => (isOutside(ratio, { min, max }) ? 0 : ratio);
  const weights = new Float64Array(mask.length).fill(1);
  for (let b = 0; b + 1 < offsets.length; b++) {
    const [from, to] = [offsets[b]!, offsets[b + 1]!];
    const gap = (t: number) => (mask[t] === 0 ? 0 : oldLogprobs[t]! - sampledLogprobs[t]!);
    let sum = 0;
    for (let t = from; t < to; t++) sum += gap(t);
    const ofSequence = bounded(Math.exp(sum));
    for (let t = from; t < to; t++) {
      if (mask[t] !== 0) weights[t] = mode.startsWith('sequence') ? ofSequence : bounded(Math.exp(gap(t)));
    }
  }
  return weights;
}

/**
 * The lowest entropy at which a token is in the top `share` by entropy (TRL's `top_entropy_quantile`) among
 * all unmasked tokens of an update; Infinity when there are none.
 */
export function entropyThreshold(entropies: Float64Array, share: number): number {
  return entropies.length === 0 ? Infinity : quantile(entropies, 1 - share);
}

/**
 * Whether a completion stays in the policy loss (TRL's `off_policy_mask_threshold`, DeepSeek-V3.2): one with
 * a negative advantage is dropped when the policy has moved away from it, that is, when the mean of sampled -
 * current log-prob over its tokens is above `threshold`.
 */
export function isOnPolicy(
  advantage: number,
  logprobs: Float64Array,
  sampledLogprobs: Float64Array,
  threshold: number,
): boolean {
  if (advantage >= 0) return true;
  let sum = 0;
  for (let t = 0; t < logprobs.length; t++) sum += sampledLogprobs[t]! - logprobs[t]!;
  return sum / Math.max(1, logprobs.length) <= threshold;
}
