/** Group-relative advantages as in TRL 1.13 (`sum_then_normalize`). */
import { mean, sampleStd } from './statistics';

export type RewardScale = 'group' | 'batch' | 'none';

export interface Advantages {
  /** Per completion, in the order of the rewards. */
  values: Float64Array;
  /** Per group: all its rewards are the very same number, so every advantage is exactly 0. */
  zeroVariance: boolean[];
  /**
   * TRL's `frac_reward_zero_std`: the share of groups without variance; with scale `batch`, 1 when the whole batch
   * has none and else 0.
   */
  fracZeroStd: number;
}

/**
 * A = (r - mean of the group) / (std + epsilon), std with Bessel's correction over the group or the batch, or A without
 * the division.
 *
 * @param rewards groups end to end, `groupSize` each (at least 2)
 */
export function computeAdvantages(
  rewards: Float64Array,
  groupSize: number,
  scale: RewardScale,
  epsilon: number,
): Advantages {
  const values = new Float64Array(rewards.length);
  const zeroVariance: boolean[] = [];
  const batchStd = scale === 'batch' ? sampleStd(rewards) : 0;
  for (let start = 0; start < rewards.length; start += groupSize) {
    const group = rewards.subarray(start, start + groupSize);
    const same = group.every((reward) => reward === group[0]);
    zeroVariance.push(same);
    // Rounding of the mean would leave such a group with advantages of 1e-17 / epsilon; they are 0.
    if (same) continue;
    const center = mean(group);
    const divisor = scale === 'none' ? 1 : (scale === 'batch' ? batchStd : sampleStd(group)) + epsilon;
    for (let i = 0; i < group.length; i++) values[start + i] = (group[i]! - center) / divisor;
  }
  return { values, zeroVariance, fracZeroStd: fractionZeroStd(rewards, zeroVariance, scale) };
}

function fractionZeroStd(rewards: Float64Array, zeroVariance: boolean[], scale: RewardScale): number {
  if (scale === 'batch') return rewards.every((reward) => reward === rewards[0]) ? 1 : 0;
  return zeroVariance.filter(Boolean).length / zeroVariance.length;
}
