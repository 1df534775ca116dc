/**
 * The part of the advantages that is not due to the verdict. Completions of one group with the same verdict
 * and the same format form a class: they differ only in what a reward says about length (or style). Their
 * advantages are split into the mean of their class and the deviation from it, which is the efficiency
 * pressure of any reward, whatever its name.
 */
import { groupBy } from '../base/group-by';
import { mean } from '../base/statistics';
import type { Group, Rollout } from '../base/types';
import type { GroupOutline } from './sample';

const classOf = ({ verdict, format }: Pick<Rollout, 'verdict' | 'format'>) => `${verdict.correct} ${format}`;

/** For each class, the indices of its completions in the flat batch. */
function* classes(groups: readonly GroupOutline[], isIn: (place: number) => boolean): Generator<number[]> {
  let start = 0;
  for (const { rollouts } of groups) {
    const places = rollouts.map((_, i) => start + i).filter(isIn);
    yield* groupBy(places, (place) => classOf(rollouts[place - start]!)).values();
    start += rollouts.length;
  }
}

export interface SplitAdvantages {
  /** Per completion, groups end to end. */
  values: Float64Array;
  /** False: not learnt from, so it belongs to no class. */
  counted: readonly boolean[];
}

/**
 * The advantages with the efficiency pressure lowered to `pressure` (1: unchanged, 0: only the verdict counts):
 * A' = m + pressure (A - m), where m is the mean of its class. Applied after the normalisation: in a group whose
 * answers are all right, dividing by the std would scale a smaller length term of the reward up again.
 */
export function withPressure(
  groups: readonly GroupOutline[],
  split: SplitAdvantages,
  pressure: number,
): Float64Array {
  if (pressure === 1) return split.values;
  const eased = Float64Array.from(split.values);
  for (const places of classes(groups, (place) => split.counted[place]!)) {
    const center = mean(places.map((place) => split.values[place]!));
    for (const place of places) eased[place] = center + pressure * (split.values[place]! - center);
  }
  return eased;
}

/** The share of the squared advantages that is within classes, 0..1; 0 when all are 0. */
export function sameVerdictShare(groups: readonly GroupOutline[], split: SplitAdvantages): number {
  let within = 0;
  let all = 0;
  for (const places of classes(groups, (place) => split.counted[place]!)) {
    const values = places.map((place) => split.values[place]!);
    const center = mean(values);
    for (const value of values) {
      within += (value - center) ** 2;
      all += value ** 2;
    }
  }
  return all === 0 ? 0 : within / all;
}

/**
 * How often brevity pays: among pairs of right answers of one group and format with different thinking lengths, the
 * share in which the shorter has the higher advantage. 1 for a reward that always prefers the shorter, 0 when only
 * the verdict counts, in between when some meet a budget; null if there is no such pair.
 */
export function brevityShare(groups: readonly Group[], split: SplitAdvantages): number | null {
  const rollouts = groups.flatMap((group) => group.rollouts);
  let pairs = 0;
  let paid = 0;
  const isIn = (place: number) => split.counted[place]! && rollouts[place]!.verdict.correct;
  for (const places of classes(groups, isIn)) {
    for (const a of places) {
      for (const b of places) {
        if (rollouts[a]!.thinkingTokens >= rollouts[b]!.thinkingTokens) continue;
        pairs++;
        if (split.values[a]! > split.values[b]!) paid++;
      }
    }
  }
  return pairs === 0 ? null : paid / pairs;
}
