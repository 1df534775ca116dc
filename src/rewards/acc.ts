import { z } from 'zod';

import { bindParameters, defaultsOf } from './parameters';
import { stateless } from './stateless';
import type { RewardDefinition } from './types';

const schema = z.strictObject({});

export const acc: RewardDefinition = {
  name: 'acc',
  summary: 'Correctness alone (GRPO-acc).',
  formula: 'c',
  source: 'the ACOER paper, table of rewards',
  defaults: defaultsOf(schema),
  bind(parameters) {
    bindParameters('acc', schema, parameters);
    return stateless('acc', (rollout) => ({ value: rollout.verdict.correct ? 1 : 0 }));
  },
};
