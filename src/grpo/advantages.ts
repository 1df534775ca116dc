/** Group-relative advantages as in TRL 1.13: rewards are summed and normalised, or normalised and summed. */
import type { Config } from '../config';
import { mean, sampleStd, sum } from '../base/statistics';
import { isGraded, type BatchRewards, type GroupOutline } from './sample';

export type RewardScale = 'group' | 'batch' | 'none';

export interface Advantages {
  /** Per completion, in the order of the rewards. */
  values: Float64Array;
  /** Per group: its rewards are all exactly equal, so every advantage is exactly 0. */
  zeroVariance: boolean[];
  /** TRL's `frac_reward_zero_std`: the share of groups without variance; with the batch's std, 1 or 0 for the batch. */
  fracZeroStd: number;
}

/** Sizes of the groups of a batch, laid end to end: one for all, or one for each. */
export type GroupSizes = number | readonly number[];

function* slicesOf(values: Float64Array, sizes: GroupSizes): Generator<[start: number, group: Float64Array]> {
  const size = (index: number) => (typeof sizes === 'number' ? sizes : sizes[index]!);
  for (let start = 0, index = 0; start < values.length; start += size(index++)) {
    yield [start, values.subarray(start, start + size(index))];
  }
}

/** Rewards beyond 1e154 have squares that overflow; divided by that, all advantages would be 0, silently. */
const finiteOrNaN = (divisor: number): number => (Number.isFinite(divisor) ? divisor : NaN);

const allEqual = (values: Float64Array) => values.every((value) => value === values[0]);

/**
 * TRL's `sum_then_normalize`: A = (r - mean of the group) / (std + epsilon), with the std over the group or
 * the batch, with Bessel's correction. With scale `none` there is no division.
 *
 * @param rewards groups end to end
 */
export function computeAdvantages(
  rewards: Float64Array,
  sizes: GroupSizes,
  scale: RewardScale,
  epsilon: number,
): Advantages {
  const values = new Float64Array(rewards.length);
  const zeroVariance: boolean[] = [];
  const batchStd = scale === 'batch' ? sampleStd(rewards) : 0;
  for (const [start, group] of slicesOf(rewards, sizes)) {
    const same = allEqual(group);
    zeroVariance.push(same);
    // Rounding in the mean would give such a group advantages of about 1e-17 / epsilon instead of 0.
    if (same) continue;
    const center = mean(group);
    const std = scale === 'batch' ? batchStd : sampleStd(group);
    const divisor = scale === 'none' ? 1 : finiteOrNaN(std + epsilon);
    for (let i = 0; i < group.length; i++) values[start + i] = (group[i]! - center) / divisor;
  }
  const ofBatch = allEqual(rewards) ? 1 : 0;
  const ofGroups = zeroVariance.length === 0 ? 1 : sum(zeroVariance.map(Number)) / zeroVariance.length;
  return { values, zeroVariance, fracZeroStd: scale === 'batch' ? ofBatch : ofGroups };
}

/** One reward function's values over the batch, unweighted. */
export interface WeightedValues {
  values: Float64Array;
  weight: number;
}

/**
 * TRL's `normalize_then_sum`: each function is normalised within its group, (r_k - mean) / (std + epsilon);
 * the weighted sum R is normalised over the batch, A = (R - mean of all) / (std of all + epsilon).
 */
export function normalizeThenSum(
  functions: readonly WeightedValues[],
  sizes: GroupSizes,
  epsilon: number,
): Advantages {
  const totals = new Float64Array(functions[0]?.values.length ?? 0);
  const constant: boolean[][] = [];
  for (const { values, weight } of functions) {
    const normalised = computeAdvantages(values, sizes, 'group', epsilon);
    normalised.values.forEach((value, i) => (totals[i] = totals[i]! + weight * value));
    constant.push(normalised.zeroVariance);
  }
  const zeroVariance = (constant[0] ?? []).map((_, g) => constant.every((groups) => groups[g]));
  const values = new Float64Array(totals.length);
  const center = mean(totals);
  const divisor = finiteOrNaN(sampleStd(totals) + epsilon);
  let g = 0;
  for (const [start, group] of slicesOf(totals, sizes)) {
    // The mean of all is 0 up to rounding, so a group that no function tells apart has advantages of 0.
    if (!zeroVariance[g++]) group.forEach((total, i) => (values[start + i] = (total - center) / divisor));
  }
  return { values, zeroVariance, fracZeroStd: zeroVariance.every(Boolean) ? 1 : 0 };
}

export type AdvantageSettings = Pick<
  Config,
  'multiObjectiveAggregation' | 'scaleRewards' | 'advantageEpsilon' | 'numRemainsInGroup' | 'groupFilter'
>;

export interface BatchAdvantages extends Advantages {
  /** Per completion: learnt from. False, with advantage 0, if ungraded or dropped by the group filter. */
  counted: boolean[];
}

/**
 * The advantages of a batch, groups end to end. Means and standard deviations are over the completions that
 * count: those of groups whose reference could be read, and under GFPO (arXiv 2508.09726, TRL's
 * `num_remains_in_group`) only the best `numRemainsInGroup` of each.
 */
export function batchAdvantages(
  groups: readonly GroupOutline[],
  rewards: BatchRewards,
  settings: AdvantageSettings,
): BatchAdvantages {
  const totals = Float64Array.from(rewards.rewards, (reward) => reward.total);
  const countedOf = countedCompletions(groups, totals, settings);
  const counted = countedOf.flat();
  const places = counted.flatMap((counts, i) => (counts ? [i] : []));
  const graded = groups.map(isGraded);
  const sizes = countedOf.filter((_, g) => graded[g]).map((own) => own.filter(Boolean).length);
  const pick = (values: Float64Array) => Float64Array.from(places, (i) => values[i]!);
  const made = ofCounted(rewards, pick, sizes, settings);
  const values = new Float64Array(totals.length);
  places.forEach((place, i) => (values[place] = made.values[i]!));
  let next = 0;
  const zeroVariance = graded.map((isOne) => (isOne ? made.zeroVariance[next++]! : true));
  return { values, zeroVariance, fracZeroStd: made.fracZeroStd, counted };
}

function ofCounted(
  rewards: BatchRewards,
  pick: (values: Float64Array) => Float64Array,
  sizes: readonly number[],
  { multiObjectiveAggregation, scaleRewards, advantageEpsilon }: AdvantageSettings,
): Advantages {
  if (multiObjectiveAggregation === 'normalize_then_sum') {
    const functions = Object.entries(rewards.perFunction).map(([name, values]) => ({
      values: pick(values),
      weight: rewards.weights[name]!,
    }));
    return normalizeThenSum(functions, sizes, advantageEpsilon);
  }
  const totals = Float64Array.from(rewards.rewards, (reward) => reward.total);
  return computeAdvantages(pick(totals), sizes, scaleRewards, advantageEpsilon);
}

/** Per group and completion: the group is graded and the group filter keeps it. */
function countedCompletions(
  groups: readonly GroupOutline[],
  totals: Float64Array,
  { numRemainsInGroup: count, groupFilter }: AdvantageSettings,
): boolean[][] {
  let start = 0;
  return groups.map((group) => {
    const first = start;
    start += group.rollouts.length;
    if (!isGraded(group)) return group.rollouts.map(() => false);
    if (count === null) return group.rollouts.map(() => true);
    const costs = group.rollouts.map(({ totalTokens }, i) =>
      groupFilter === 'shortest' ? totalTokens : -totals[first + i]! / Math.max(1, totalTokens),
    );
    // Ties go to the earlier sample.
    const best = costs.map((_, i) => i).sort((a, b) => costs[a]! - costs[b]! || a - b);
    const kept = new Set(best.slice(0, count));
    return costs.map((_, i) => kept.has(i));
  });
}
