/**
 * What a token's policy loss is multiplied by before it is added up: weights for the difference between the sampler and
 * the trainer, and masks that take single tokens or completions out. All are off by default; names and rules are those
 * of TRL 1.13. A weight of your own goes here.
 */
import { quantile } from '../statistics';

export const CORRECTION_MODES = [
  'token_truncate',
  'token_mask',
  'sequence_truncate',
  'sequence_mask',
] as const;

/** TRL's `vllm_importance_sampling_mode` with its bounds; null: none. */
export interface ImportanceCorrection {
  mode: (typeof CORRECTION_MODES)[number];
  min: number | null;
  max: number | null;
}

interface Tokens {
  /** [B + 1] */
  offsets: Int32Array;
  /** [N] */
  mask: Uint8Array;
}

/**
 * [N] the ratio of the policy before the update to the sampler, exp(old - sampled): for each token, or for a whole
 * sequence at each of its tokens. Outside the bounds `*_truncate` takes the bound, `*_mask` 0. Masked tokens have 1.
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
    : (ratio: number) => (ratio < low || ratio > high ? 0 : ratio);
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
 * The entropy from which on a token is among the `share` of highest entropy (TRL's `top_entropy_quantile`), over all
 * unmasked tokens of an update; Infinity when there is none.
 */
export function entropyThreshold(entropies: Float64Array, share: number): number {
  return entropies.length === 0 ? Infinity : quantile(entropies, 1 - share);
}

/**
 * Whether a completion stays in the policy loss (TRL's `off_policy_mask_threshold`, DeepSeek-V3.2): one with a negative
 * advantage goes when the policy has moved away from it, that is when the mean of sampled - current log-prob over its
 * tokens is above `threshold`.
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
