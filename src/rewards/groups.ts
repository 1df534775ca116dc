/** Figures of a group or batch that several rewards need. */
import { mean } from '../statistics';
import type { Group, Rollout } from '../types';

export const isCorrect = (rollout: Rollout): boolean => rollout.verdict.correct;

/** c. */
export const correctness = (rollout: Rollout): number => (rollout.verdict.correct ? 1 : 0);

export const correctOf = ({ rollouts }: Group): Rollout[] => rollouts.filter(isCorrect);

export const rolloutsOf = (batch: readonly Group[]): Rollout[] => batch.flatMap((group) => group.rollouts);

/** Share of correct answers, 0..1; 0 of nothing. */
export const accuracyOf = (rollouts: readonly Rollout[]): number =>
  rollouts.length === 0 ? 0 : mean(rollouts.map(correctness));

/** Without Bessel's correction: of one value it is 0. */
export function populationStd(values: readonly number[]): number {
  const center = mean(values);
  return Math.sqrt(mean(values.map((value) => (value - center) ** 2)));
}
