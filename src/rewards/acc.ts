import { defineLengthless } from './define';
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
