/**
 * From the value at length 0 (short) to that at L (long). TRL's `get_cosine_scaled_reward` is correctShort 1, correctLong
 * 0.5, wrongShort -1, wrongLong -0.5 and punishOverLength false: beyond L the value at L holds.
 */
import { z } from 'zod';
import { defineReward } from './define';
import { isCorrect } from './groups';

export const cosine = defineReward({
  name: 'cosine',
  summary:
    'Half a cosine wave over the length: correct answers fall, wrong ones rise (Demystifying Long CoT).',
  formula: 'long + (short - long) * (1 + cos(pi * l/L))/2; overLength if l >= L',
  source: 'arXiv 2502.03373',
  taxonomy: { scope: 'completion', correct: 'shorter', incorrect: 'longer', continuous: false },
  length: 'total',
  parameters: {
    correctShort: z.number().default(2),
    correctLong: z.number().default(1),
    wrongShort: z.number().default(-10),
    wrongLong: z.number().default(0),
    overLength: z.number().default(-10),
    punishOverLength: z.boolean().default(true),
  },
  reward: (parameters, { l, L }) => ({
    score(rollout, view) {
      const { correctShort, correctLong, wrongShort, wrongLong, overLength, punishOverLength } = parameters;
      const progress = l(rollout) / L(view);
      if (punishOverLength && progress >= 1) return { value: overLength };
      const [short, long] = isCorrect(rollout) ? [correctShort, correctLong] : [wrongShort, wrongLong];
      const height = (1 + Math.cos(Math.PI * Math.min(progress, 1))) / 2;
      return { value: long + (short - long) * height };
    },
  }),
});
