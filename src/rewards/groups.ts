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

/** z of a correct answer's length among those of its group; the standard deviation is without Bessel's correction. */
export function standardLength(rollout: Rollout, group: Group, l: (rollout: Rollout) => number): number {
  const lengths = correctOf(group).map(l);
  const center = mean(lengths);
  const deviation = Math.sqrt(mean(lengths.map((length) => (length - center) ** 2)));
  return (l(rollout) - center) / (deviation + 1e-7);
}
