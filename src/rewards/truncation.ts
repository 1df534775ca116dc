/** `soft-overlong` is the version without a step. */
import { defineLengthless, nonNegative } from './define';

export const truncation = defineLengthless({
  name: 'truncation',
  summary: 'A penalty on completions cut off by the length limit; to be added to another reward.',
  formula: '-penalty if truncated, else 0',
  source: 'ours',
  taxonomy: { scope: 'completion', correct: 'shorter', incorrect: 'shorter', continuous: false },
  parameters: { penalty: nonNegative().default(1) },
  reward: ({ penalty }) => ({
    score: (rollout) => ({ value: rollout.finish === 'length' ? -penalty : 0 }),
  }),
});
