/**
 * What the advantages say besides the verdict. Completions of one group with the same verdict and the same format differ
 * only in what a reward says about length (or style); their advantages are split into the mean of their class and the
 * rest around it, which is the efficiency pressure of any reward, known by name or not.
 */
import { mean } from '../statistics';
import type { Group, Rollout } from '../types';
import type { GroupOutline } from './sample';

const classOf = ({ verdict, format }: Pick<Rollout, 'verdict' | 'format'>) => `${verdict.correct} ${format}`;

/** Places in the flat batch of the completions that share group, verdict and format. */
function* classes(groups: readonly GroupOutline[], isIn: (place: number) => boolean): Generator<number[]> {
  let start = 0;
  for (const { rollouts } of groups) {
    const members = new Map<string, number[]>();
    rollouts.forEach((rollout, i) => {
      if (!isIn(start + i)) return;
      const key = classOf(rollout);
      members.set(key, [...(members.get(key) ?? []), start + i]);
    });
    yield* members.values();
    start += rollouts.length;
  }
}

export interface SplitAdvantages {
  /** Per completion, groups end to end. */
  values: Float64Array;
  /** False: not learnt from, so that it belongs to no class. */
  counted: readonly boolean[];
}

/**
 * The advantages with the efficiency pressure lowered to `pressure` (1: as they are, 0: only the verdict counts):
 * A' = m + pressure (A - m), m the mean of its class. Applied behind the normalisation: a smaller length part of the
 * reward would be blown up again by the std of a group whose answers are all right.
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

/** Share of the squared advantages that tells answers of one class apart, 0..1; 0 when all are 0. */
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
 * How often brevity pays: of the pairs of right answers of one group and format that think for different lengths, the
 * share in which the shorter has the higher advantage. 1 under a reward that always wants it shorter, 0 when only the
 * verdict counts, in between when a budget is met by some. null without such a pair.
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
