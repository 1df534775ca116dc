/**
 * l_min and l_max are over the prompt's correct answers, best is the highest batch accuracy so far, and margin is
 * `accuracyMargin`. r_len is 0.5 up to l_min + tolerance; beyond it 1e-5 is added to the denominator.
 */
import { defineReward, nonNegative, sumOf } from './define';
import { accuracyOf, correctOf, isCorrect, rolloutsOf } from './groups';
import { maximum, minimum } from '../base/statistics';

interface State {
  bestAccuracy: number;
}

export const shortRl = defineReward({
  name: 'short-rl',
  summary: 'A bonus for correct answers near the shortest correct one, while accuracy holds (Short-RL).',
  formula:
    'c * (1 + [acc >= best - margin] * r_len), r_len = 0.5 - (l - l_min)/(l_max - l_min) past a tolerance',
  source: 'arXiv 2505.12284',
  taxonomy: {
    scope: 'batch',
    correct: 'shorter',
    incorrect: 'none',
    bounded: false,
    continuous: false,
    adaptive: true,
  },
  length: 'total',
  parameters: {
    tolerance: nonNegative().default(100),
    accuracyMargin: nonNegative().default(0.05),
  },
  reward: ({ tolerance, accuracyMargin }, { l }) => ({
    initialState: (): State => ({ bestAccuracy: 0 }),
    observe: ({ bestAccuracy }: State, { batch }): State => ({
      bestAccuracy: Math.max(bestAccuracy, accuracyOf(rolloutsOf(batch))),
    }),
    score(rollout, { group, batch, state }) {
      if (!isCorrect(rollout)) return sumOf(0, 0);
      if (accuracyOf(rolloutsOf(batch)) < state.bestAccuracy - accuracyMargin) return sumOf(1, 0);
      const lengths = correctOf(group).map(l);
      const shortest = minimum(lengths);
      const over = l(rollout) - shortest;
      return sumOf(1, over <= tolerance ? 0.5 : 0.5 - over / (maximum(lengths) - shortest + 1e-5));
    },
    metrics: (state) => ({ 'short-rl/best_accuracy': state.bestAccuracy }),
    snapshot: ({ bestAccuracy }) => ({ bestAccuracy }),
  }),
});
