/** std is without Bessel's correction. */
import { defineReward, nonNegative } from './define';
import { mean } from '../base/statistics';
import { correctOf, isCorrect, populationStd } from './groups';

export const grpoLeadOriginal = defineReward({
  name: 'grpo-lead-original',
  summary:
    'Correct answers decay with their standardised length, wrong ones cost 1 (GRPO-LEAD as published).',
  formula: 'e^(-alpha * z) if correct, z = (l - mean)/(std + 1e-7) over the correct; -1 if not',
  source: 'arXiv 2504.09696, from a secondary source',
  taxonomy: { scope: 'group', correct: 'shorter', incorrect: 'none', bounded: false },
  length: 'total',
  parameters: { alpha: nonNegative().default(0.05) },
  reward: ({ alpha }, { l }) => ({
    score(rollout, { group }) {
      if (!isCorrect(rollout)) return { value: -1 };
      const lengths = correctOf(group).map(l);
      const z = (l(rollout) - mean(lengths)) / (populationStd(lengths) + 1e-7);
      return { value: Math.exp(-alpha * z) };
    },
  }),
});
