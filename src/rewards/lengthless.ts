/** Rewards that measure no length. */
import { defineLengthless, nonNegative } from './define';
import { correctness } from './groups';

export const acc = defineLengthless({
  name: 'acc',
  summary: 'Correctness alone (GRPO-acc).',
  formula: 'c',
  source: 'the ACOER paper, table of rewards',
  taxonomy: { scope: 'completion', correct: 'none', incorrect: 'none' },
  parameters: {},
  reward: () => ({ score: (rollout) => ({ value: correctness(rollout) }) }),
});

/** The loop adds it to every answer with the weight `formatWeight`, so it is not named in `reward`. */
export const format = defineLengthless({
  name: 'format',
  summary: 'Closed thinking and a boxed answer; always added, with `formatWeight`.',
  formula: '1 if closed <think>...</think> and \\boxed{}, else 0',
  source: 'the ACOER paper, equation 2',
  taxonomy: { scope: 'completion', correct: 'none', incorrect: 'none' },
  parameters: {},
  reward: () => ({ score: (rollout) => ({ value: rollout.format ? 1 : 0 }) }),
});

/** `soft-overlong` is the version without a step. */
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
