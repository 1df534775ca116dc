/** Correctness alone: r = c. GRPO-acc in the ACOER paper. No parameters. */
import { z } from 'zod';

import { bindParameters } from '../config/parameters';
import { stateless } from './stateless';
import type { RewardDefinition } from './types';

export const acc: RewardDefinition = {
  name: 'acc',
  summary: 'Correctness alone (GRPO-acc).',
  formula: 'c',
  source: 'the ACOER paper, table of rewards',
  taxonomy: {
    scope: 'completion',
    correct: 'none',
    incorrect: 'none',
    bounded: true,
    continuous: true,
    adaptive: false,
  },
  defaults: {},
  bind(parameters) {
    bindParameters('rewardParams.acc', z.strictObject({}), parameters);
    return stateless('acc', (rollout) => ({ value: rollout.verdict.correct ? 1 : 0 }));
  },
};
