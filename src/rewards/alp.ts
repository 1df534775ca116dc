/** K is the group size and p_solved its fraction of correct answers, so easy prompts pay more per token. */
import { defineReward, nonNegative, sumOf } from './define';
import { accuracyOf, correctness } from './groups';

export const alp = defineReward({
  name: 'alp',
  summary: 'A penalty per token that grows with how often the prompt is solved (ALP).',
  formula: 'c - (beta/K) * l * max(p_solved, 1/K)',
  source: 'arXiv 2506.05256; the constant from a secondary source',
  taxonomy: { scope: 'group', correct: 'shorter', incorrect: 'shorter' },
  length: 'total',
  parameters: { beta: nonNegative().default(1e-7) },
  reward: ({ beta }, { l }) => ({
    score(rollout, { group: { rollouts } }) {
      const K = rollouts.length;
      const solved = Math.max(accuracyOf(rollouts), 1 / K);
      return sumOf(correctness(rollout), (-beta / K) * l(rollout) * solved);
    },
  }),
});
