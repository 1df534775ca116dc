/** Lmax is `maxLength` and Lc `cacheLength`, whose 0 means Lmax / 5, as in the paper. */
import { defineReward, nonNegative } from './define';

export const softOverlong = defineReward({
  name: 'soft-overlong',
  summary:
    'A penalty that grows over the last stretch before the length limit; to be added to another reward (DAPO).',
  formula: '0 if l <= Lmax - Lc; ((Lmax - Lc) - l)/Lc up to Lmax; -1 beyond',
  source: 'arXiv 2503.14476, equation 13',
  taxonomy: { scope: 'completion', correct: 'shorter', incorrect: 'shorter' },
  length: 'total',
  parameters: { cacheLength: nonNegative().default(0) },
  reward: ({ cacheLength }, { l, L }) => ({
    score(rollout, view) {
      const most = L(view);
      const cache = cacheLength || most / 5;
      const over = l(rollout) - (most - cache);
      return { value: over <= 0 ? 0 : Math.max(-1, -over / cache) };
    },
  }),
});
