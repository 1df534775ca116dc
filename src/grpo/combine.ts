/** From the rewards of a batch to its advantages: which completions are learnt from, and how functions are combined. */
import type { Config } from '../config';
import type { Group } from '../types';
import { computeAdvantages, normalizeThenSum, type Advantages } from './advantages';
import type { BatchRewards } from './rewards';
import { pick, scatter, selectAll, selectBest, type Selection } from './selection';

export type AdvantageSettings = Pick<
  Config,
  'multiObjectiveAggregation' | 'scaleRewards' | 'advantageEpsilon' | 'numRemainsInGroup' | 'groupFilter'
>;

export interface BatchAdvantages extends Advantages {
  /** Per completion: not selected by the group filter, so its advantage is 0. */
  dropped: boolean[];
}

function selectionOf(groups: readonly Group[], totals: Float64Array, settings: AdvantageSettings): Selection {
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

/** The advantages of a batch whose groups may differ in size. */
export function batchAdvantages(
  groups: readonly Group[],
  rewards: BatchRewards,
  settings: AdvantageSettings,
): BatchAdvantages {
  const totals = Float64Array.from(rewards.rewards, (reward) => reward.total);
  const selection = selectionOf(groups, totals, settings);
  const dropped = new Array<boolean>(totals.length).fill(true);
  for (const i of selection.kept) dropped[i] = false;
  return { ...scatter(selection, advantagesOf(rewards, selection, settings), totals.length), dropped };
}
