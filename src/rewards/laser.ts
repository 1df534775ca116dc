/** LASER, with a target length that is set or, as LASER-D, measured. */
import { z } from 'zod';
import type { KnownMetrics } from '../base/metric-names';
import type { Group } from '../base/types';
import { defineReward, nonNegative, sumOf } from './define';
import { accuracyOf, correctOf, isCorrect } from './groups';
import { maximum } from '../base/statistics';

const laserParameters = {
  bonus: nonNegative().default(0.5),
  wrongPenalty: nonNegative().default(0.5),
};

/** L_T is `targetLength`; 0 means L / 2. */
export const laser = defineReward({
  name: 'laser',
  summary: 'A step: a bonus for correct answers within a target length (LASER).',
  formula: 'c + bonus * c * [l <= L_T]; -wrongPenalty if wrong',
  source: 'arXiv 2505.15612',
  taxonomy: { scope: 'completion', correct: 'shorter', incorrect: 'none', continuous: false },
  length: 'total',
  parameters: { ...laserParameters, targetLength: nonNegative().default(0) },
  reward: ({ bonus, wrongPenalty, targetLength }, { l, L }) => ({
    score(rollout, view) {
      if (!isCorrect(rollout)) return sumOf(-wrongPenalty, 0);
      return sumOf(1, l(rollout) <= (targetLength || L(view) / 2) ? bonus : 0);
    },
  }),
});

const TIERS = ['high', 'medium', 'low'] as const;
type Tier = (typeof TIERS)[number];
type PerTier<Value> = Record<Tier, Value>;

interface State {
  /** Number of batches observed. */
  batches: number;
  groupSize: number;
  /** Lengths of the correct answers in each of the last `monitorWindow` batches. */
  monitor: readonly PerTier<readonly number[]>[];
  /** L_A, or null before it is measured. */
  target: PerTier<number | null>;
}

function tierOf(group: Group): Tier {
  const accuracy = accuracyOf(group.rollouts);
  if (accuracy >= 2 / 3) return 'high';
  return accuracy >= 1 / 3 ? 'medium' : 'low';
}

const perTier = <Value>(value: (tier: Tier) => Value): PerTier<Value> => ({
  high: value('high'),
  medium: value('medium'),
  low: value('low'),
});

function leastCount(tier: Tier, groupSize: number): number {
  const thirds = { high: 2, medium: 1, low: 0 }[tier];
  return Math.max(1, Math.floor((thirds * groupSize) / 3));
}

/** The smallest of `lengths` with coverage * count >= 1, or null if there are none. */
function targetOf(lengths: readonly number[], count: number): number | null {
  const sorted = [...lengths].sort((a, b) => a - b);
  return sorted[Math.ceil(sorted.length / count) - 1] ?? null;
}

/**
 * A group's tier is high if its accuracy is >= 2/3, medium if >= 1/3, else low. L_A is the smallest length
 * whose coverage (the fraction of the tier's correct answers no longer than it) times the tier's minimum
 * count (floor(2n/3), floor(n/3), 1; n is the group size) is at least 1. Until it is measured, L_A is L.
 *
 * The paper measures on a monitor set every few steps. Here the monitor set is the training data: the
 * correct answers of the last `monitorWindow` batches, re-measured every `monitorSteps` batches (both
 * defaults are ours).
 */
export const laserD = defineReward({
  name: 'laser-d',
  summary: 'LASER with a target length measured for each tier of difficulty (LASER-D).',
  formula: 'c + bonus * c * [l <= L_A(tier)]; -wrongPenalty if wrong',
  source: 'arXiv 2505.15612; the monitor set is the recent training batches',
  taxonomy: { scope: 'history', correct: 'shorter', incorrect: 'none', continuous: false, adaptive: true },
  length: 'total',
  parameters: {
    ...laserParameters,
    monitorSteps: z.int().min(1).default(20),
    monitorWindow: z.int().min(1).default(20),
  },
  reward: ({ bonus, wrongPenalty, monitorSteps, monitorWindow }, { l, L }) => ({
    initialState: (): State => ({ batches: 0, groupSize: 0, monitor: [], target: perTier(() => null) }),
    observe(state: State, { batch }): State {
      const measured = perTier((tier) =>
        batch.filter((group) => tierOf(group) === tier).flatMap((group) => correctOf(group).map(l)),
      );
      const monitor = [...state.monitor, measured].slice(-monitorWindow);
      const batches = state.batches + 1;
      const groupSize = Math.max(state.groupSize, maximum(batch.map((group) => group.rollouts.length)));
      if (batches % monitorSteps !== 0) return { ...state, batches, groupSize, monitor };
      const target = perTier(
        (tier) =>
          targetOf(
            monitor.flatMap((lengths) => lengths[tier]),
            leastCount(tier, groupSize),
          ) ?? state.target[tier],
      );
      return { batches, groupSize, monitor, target };
    },
    score(rollout, view) {
      if (!isCorrect(rollout)) return sumOf(-wrongPenalty, 0);
      const target = view.state.target[tierOf(view.group)] ?? L(view);
      return sumOf(1, l(rollout) <= target ? bonus : 0);
    },
    metrics({ target }) {
      const metrics: KnownMetrics = {};
      for (const tier of TIERS) if (target[tier] !== null) metrics[`laser-d/target_${tier}`] = target[tier];
      return metrics;
    },
    snapshot: ({ target }) => ({
      targetHigh: target.high,
      targetMedium: target.medium,
      targetLow: target.low,
    }),
  }),
});
