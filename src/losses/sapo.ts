/** SAPO: a sigmoid instead of the clip, so that the gradient fades out instead of stopping. */
import { z } from 'zod';
import { sumOverTokens } from './tokens';
import type { LossDefinition } from './types';

const parameters = {
  temperaturePos: z.number().positive().default(1).describe('t for positive advantages.'),
  temperatureNeg: z.number().positive().default(1.05).describe('t for other advantages.'),
};

export const sapo: LossDefinition<typeof parameters> = {
  name: 'sapo',
  summary: 'SAPO: the ratio passes through a sigmoid; averaged like grpo.',
  formula: '1/S sum_i 1/|o_i| sum_t -4/t sigmoid(t (w - 1)) A',
  parameters,
  usesDelta: false,
  normalizer: ({ sequences }) => sequences,
  compute(batch, settings, { temperaturePos, temperatureNeg }) {
    const added = sumOverTokens(batch, settings, {
      meanOfSequence: true,
      ruleOf({ advantage }) {
        const t = advantage > 0 ? temperaturePos : temperatureNeg;
        return (term, ratio) => {
          const gate = 1 / (1 + Math.exp(-t * (ratio - 1)));
          term.loss = ((-gate * 4) / t) * advantage;
          term.slopeRatio = -4 * gate * (1 - gate) * advantage;
          term.slopeLogprob = 0;
        };
      },
    });
    return { ...added, measures: {} };
  },
  metrics: () => ({}),
};
