/** Statistics of a group or batch that several rewards share. */
import { mean } from '../base/statistics';
import type { Group, Rollout } from '../base/types';

export const isCorrect = (rollout: Rollout): boolean => rollout.verdict.correct;

/** c of the formulas: 1 if correct, else 0. */
export const correctness = (rollout: Rollout): number => (rollout.verdict.correct ? 1 : 0);

export const correctOf = ({ rollouts }: Group): Rollout[] => rollouts.filter(isCorrect);

export const rolloutsOf = (batch: readonly Group[]): Rollout[] => batch.flatMap((group) => group.rollouts);

/** Fraction of correct answers, 0..1; 0 for no answers. */
export const accuracyOf = (rollouts: readonly Rollout[]): number =>
  rollouts.length === 0 ? 0 : mean(rollouts.map(correctness));

/** Standard deviation without Bessel's correction: 0 for one value. */
export function populationStd(values: readonly number[]): number {
  const center = mean(values);
  return Math.sqrt(mean(values.map((value) => (value - center) ** 2)));
}
