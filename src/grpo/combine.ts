/** From the rewards of a batch to its advantages: which completions are learnt from, and how functions are combined. */
import type { Config } from '../config';
import { computeAdvantages, normalizeThenSum, type Advantages } from './advantages';
import type { GroupOutline } from './non-finite';
import type { BatchRewards } from './rewards';
import { isGraded } from './rollouts';
import { pick, scatter, selectAll, selectBest, type Selection } from './selection';

export type AdvantageSettings = Pick<
  Config,
  'multiObjectiveAggregation' | 'scaleRewards' | 'advantageEpsilon' | 'numRemainsInGroup' | 'groupFilter'
>;

export interface BatchAdvantages extends Advantages {
  /** Per completion: not selected by the group filter, so its advantage is 0. */
  dropped: boolean[];
}

function selectionOf(
  groups: readonly GroupOutline[],
  totals: Float64Array,
  settings: AdvantageSettings,
): Selection {
  const { numRemainsInGroup, groupFilter } = settings;
  if (numRemainsInGroup === null) return selectAll(groups.map((group) => group.rollouts));
  let next = 0;
  const candidates = groups.map((group) =>
    group.rollouts.map(({ totalTokens }) => ({ reward: totals[next++]!, tokens: totalTokens })),
  );
  return selectBest(candidates, numRemainsInGroup, groupFilter);
}

function advantagesOf(rewards: BatchRewards, selection: Selection, settings: AdvantageSettings): Advantages {
  const { multiObjectiveAggregation, scaleRewards, advantageEpsilon } = settings;
  if (multiObjectiveAggregation === 'normalize_then_sum') {
    const functions = Object.entries(rewards.perFunction).map(([name, values]) => ({
      values: pick(selection, values),
      weight: rewards.weights[name]!,
    }));
    return normalizeThenSum(functions, selection.sizes, advantageEpsilon);
  }
  const totals = Float64Array.from(rewards.rewards, (reward) => reward.total);
  return computeAdvantages(pick(selection, totals), selection.sizes, scaleRewards, advantageEpsilon);
}

/** The part of a batch's rewards that belongs to `groups`, some of the batch's. */
function rewardsOf(
  groups: readonly GroupOutline[],
  all: readonly GroupOutline[],
  batch: BatchRewards,
): BatchRewards {
  const wanted = new Set(groups);
  const isWanted = all.flatMap((group) => group.rollouts.map(() => wanted.has(group)));
  const ofWanted = (_: unknown, i: number) => isWanted[i]!;
  return {
    ...batch,
    rewards: batch.rewards.filter(ofWanted),
    perFunction: Object.fromEntries(
      Object.entries(batch.perFunction).map(([name, values]) => [name, values.filter(ofWanted)]),
    ),
  };
}

/** The advantages of a batch whose groups may differ in size; groups that are not graded get 0 and move no other. */
export function batchAdvantages(
  groups: readonly GroupOutline[],
  rewards: BatchRewards,
  settings: AdvantageSettings,
): BatchAdvantages {
  const graded = groups.filter(isGraded);
  const ofGraded = gradedAdvantages(graded, rewardsOf(graded, groups, rewards), settings);
  if (graded.length === groups.length) return ofGraded;
  const all = { values: [] as number[], zeroVariance: [] as boolean[], dropped: [] as boolean[] };
  let group = 0;
  let completion = 0;
  for (const { rollouts } of groups) {
    const isOne = graded[group]?.rollouts === rollouts;
    all.zeroVariance.push(isOne ? ofGraded.zeroVariance[group++]! : true);
    for (let i = 0; i < rollouts.length; i++) {
      all.values.push(isOne ? ofGraded.values[completion]! : 0);
      all.dropped.push(isOne ? ofGraded.dropped[completion++]! : false);
    }
  }
  return { ...all, values: Float64Array.from(all.values), fracZeroStd: ofGraded.fracZeroStd };
}

function gradedAdvantages(
  groups: readonly GroupOutline[],
  rewards: BatchRewards,
  settings: AdvantageSettings,
): BatchAdvantages {
  const totals = Float64Array.from(rewards.rewards, (reward) => reward.total);
  const selection = selectionOf(groups, totals, settings);
  const dropped = new Array<boolean>(totals.length).fill(true);
  for (const i of selection.kept) dropped[i] = false;
  return { ...scatter(selection, advantagesOf(rewards, selection, settings), totals.length), dropped };
}
