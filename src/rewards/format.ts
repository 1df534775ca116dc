/** The loop adds it to every answer with the weight `formatWeight`, so it is not named in `reward`. */
import { defineLengthless } from './define';

export const format = defineLengthless({
  name: 'format',
  summary: 'Closed thinking and a boxed answer; always added, with `formatWeight`.',
  formula: '1 if closed <think>...</think> and \\boxed{}, else 0',
  source: 'the ACOER paper, equation 2',
  taxonomy: { scope: 'completion', correct: 'none', incorrect: 'none' },
  parameters: {},
  reward: () => ({ score: (rollout) => ({ value: rollout.format ? 1 : 0 }) }),
});
