import { z } from 'zod';

import { bindParameters, defaultsOf } from './parameters';
import { stateless } from './stateless';
import type { RewardDefinition } from './types';

const schema = z.strictObject({ alpha: z.number().min(0).default(0.3) });

export const grpoLp: RewardDefinition = {
  name: 'grpo-lp',
  summary: 'A linear price on thinking, for right and wrong answers alike (GRPO+LP).',
  formula: 'c - alpha * l / L',
  source: 'the ACOER paper, table of rewards',
  defaults: defaultsOf(schema),
  bind(parameters) {
    const { alpha } = bindParameters('grpo-lp', schema, parameters);
    return stateless('grpo-lp', (rollout, { maxLength }) => {
      const accuracy = rollout.verdict.correct ? 1 : 0;
      const length = (-alpha * rollout.thinkingTokens) / maxLength;
      return { value: accuracy + length, parts: { accuracy, length } };
    });
  },
};
