/** CISPO: the ratio is a fixed (detached) weight, bounded from above. */
import { clipRatio, tokensOfGeneration } from './clipped';
import { sumOverTokens } from './tokens';
import type { LossDefinition } from './types';

export const cispo: LossDefinition<Record<never, never>> = {
  name: 'cispo',
  summary: 'CISPO: every token keeps a gradient, weighted by its bounded ratio.',
  formula: '1/T sum_i sum_t -min(w, epsilonHigh) A logprob, the weight held fixed, T the tokens of the batch',
  parameters: {},
  usesDelta: false,
  normalizer: tokensOfGeneration,
  compute(batch, settings) {
    const clippedHigh = new Float64Array(batch.advantages.length);
    const added = sumOverTokens(batch, settings, {
      ruleOf({ index, active, advantage }) {
        const share = 1 / Math.max(active, 1);
        return (term, ratio, logprob) => {
          const weight = Math.min(ratio, settings.epsilonHigh);
          term.loss = -weight * advantage * logprob;
          term.slopeLogprob = -weight * advantage;
          term.slopeRatio = 0;
          if (ratio > settings.epsilonHigh && advantage > 0) clippedHigh[index]! += share;
        };
      },
    });
    return { ...added, measures: { clippedHigh } };
  },
  metrics: (sequences, level) => ({ cispo_clip_ratio: clipRatio(sequences, level, 'clippedHigh').mean }),
};
