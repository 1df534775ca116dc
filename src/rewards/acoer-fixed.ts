/** Shows what the controller adds. As in ACOER, thinking that never closed earns no bonus. */
import { z } from 'zod';
import { efficiency } from './acoer/controller';
import { defineReward, nonNegative, sumOf } from './define';
import { correctness } from './groups';

export const acoerFixed = defineReward({
  name: 'acoer-fixed',
  summary: "ACOER's bonus with alpha and budget fixed.",
  formula: 'c + c * alpha * log(1 + k(1 - min(l/L, 1))) / log(1 + k)',
  source: 'ours, after the ACOER paper',
  taxonomy: { scope: 'completion', correct: 'shorter', incorrect: 'none' },
  length: 'thinking',
  parameters: { alpha: nonNegative().default(0.02), logScale: z.number().positive().default(5) },
  reward: ({ alpha, logScale }, { l, L }) => ({
    score: (rollout, view) => {
      const c = correctness(rollout);
      const earns = c === 1 && rollout.thinkingClosed;
      return sumOf(c, earns ? alpha * efficiency(l(rollout), L(view), logScale) : 0);
    },
  }),
});
