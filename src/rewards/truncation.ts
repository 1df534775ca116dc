/**
 * A flat penalty on completions that the length limit cut off: r = -penalty if truncated, else 0. Meant to be
 * added to another reward; `soft-overlong` is the version without a step.
 *
 * Parameters: penalty 1.
 */
import { z } from 'zod';
import { bindParameters, defaultsOf } from '../config/parameters';
import { stateless } from './stateless';
import type { RewardDefinition } from './types';

const schema = z.strictObject({ penalty: z.number().min(0).default(1) });

export const truncation: RewardDefinition = {
  name: 'truncation',
  summary: 'A penalty on completions cut off by the length limit; to be added to another reward.',
  formula: '-penalty if truncated, else 0',
  source: 'ours',
  taxonomy: {
    scope: 'completion',
    correct: 'shorter',
    incorrect: 'shorter',
    bounded: true,
    continuous: false,
    adaptive: false,
  },
  defaults: defaultsOf(schema),
  bind(parameters) {
    const { penalty } = bindParameters('rewardParams.truncation', schema, parameters);
    return stateless('truncation', (rollout) => ({ value: rollout.finish === 'length' ? -penalty : 0 }));
  },
};
