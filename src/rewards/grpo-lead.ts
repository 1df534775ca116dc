import { defineReward, nonNegative } from './define';
import { isCorrect, standardLength } from './groups';

/** The published version is `grpo-lead-original`. */
export const grpoLead = defineReward({
  name: 'grpo-lead',
  summary: 'Correct answers decay with length, wrong ones cost 1 (GRPO-LEAD as the ACOER paper gives it).',
  formula: 'e^(-l/L) if correct, -1 if not',
  source: 'the ACOER paper, table of rewards',
  taxonomy: { scope: 'completion', correct: 'shorter', incorrect: 'none' },
  length: 'thinking',
  parameters: {},
  reward: (_, { l, L }) => ({
    score: (rollout, view) => ({ value: isCorrect(rollout) ? Math.exp(-l(rollout) / L(view)) : -1 }),
  }),
});

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
      return { value: Math.exp(-alpha * standardLength(rollout, group, l)) };
    },
  }),
});
