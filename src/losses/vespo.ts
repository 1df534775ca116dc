/** VESPO: each sequence's tokens are weighted by a gamma-shaped function of the product of its ratios. */
import { z } from 'zod';
import type { KnownMetrics } from '../base/metric-names';
import { mean } from '../base/statistics';
import { tokensOfGeneration } from './clipped';
import { logRatio, sumOverTokens, type SequenceTokens } from './tokens';
import type { LossBatch, LossDefinition } from './types';

const LOG_RATIO_BOUND = 20;
/** ln 1e-8 */
const SMALLEST_LOG_WEIGHT = Math.log(1e-8);
const SMALLEST_LAMBDA = 1e-4;

const parameters = {
  kPos: z.number().min(0).default(2).describe('k for non-negative advantages.'),
  lambdaPos: z.number().min(0).default(3).describe('lambda for non-negative advantages.'),
  kNeg: z.number().min(0).default(3).describe('k for negative advantages.'),
  lambdaNeg: z.number().min(0).default(2).describe('lambda for negative advantages.'),
};
type Shape = z.output<z.ZodObject<typeof parameters>>;

const clamp = (value: number, low: number, high: number) => Math.min(Math.max(value, low), high);

/** log of the product of a sequence's ratios and importance weights; each term and the sum are bounded. */
function logWeight(batch: LossBatch, { from, to }: SequenceTokens): number {
  let total = 0;
  for (let t = from; t < to; t++) {
    if (batch.mask[t] === 0) continue;
    total += clamp(logRatio(batch, t), -LOG_RATIO_BOUND, LOG_RATIO_BOUND);
    if (batch.importanceWeights !== null)
      total += clamp(Math.log(batch.importanceWeights[t]!), SMALLEST_LOG_WEIGHT, LOG_RATIO_BOUND);
  }
  return clamp(total, SMALLEST_LOG_WEIGHT, LOG_RATIO_BOUND);
}

/** exp(lambda + k log w - lambda w): 1 at w = 1. */
function phiOf(logW: number, advantage: number, shape: Shape): number {
  const [k, given] = advantage >= 0 ? [shape.kPos, shape.lambdaPos] : [shape.kNeg, shape.lambdaNeg];
  const lambda = Math.max(SMALLEST_LAMBDA, given);
  const phi = Math.exp(lambda + k * logW - lambda * Math.exp(logW));
  return Number.isFinite(phi) ? phi : 0;
}

export const vespo: LossDefinition<typeof parameters> = {
  name: 'vespo',
  summary: "VESPO: one weight per sequence, phi of the product of its tokens' ratios.",
  formula: '1/T sum_i phi(W_i) sum_t -A logprob, phi(W) = exp(lambda + k log W - lambda W) held fixed',
  parameters,
  usesDelta: false,
  normalizer: tokensOfGeneration,
  compute(batch, settings, shape) {
    // TRL averages over every sequence; one without a token in the loss has phi(1) = 1.
    const phi = new Float64Array(batch.advantages.length).fill(1);
    const added = sumOverTokens(batch, settings, {
      weighsItself: true,
      ruleOf(sequence) {
        const { index, active, advantage } = sequence;
        const weight = phiOf(logWeight(batch, sequence), advantage, shape);
        if (active > 0) phi[index] = weight;
        return (term, _, logprob) => {
          term.loss = -weight * advantage * logprob;
          term.slopeLogprob = -weight * advantage;
          term.slopeRatio = 0;
        };
      },
    });
    return { ...added, measures: { phi } };
  },
  metrics(sequences): KnownMetrics {
    // On-policy, a skipped sequence has ratio 1 and so weight 1; off-policy its weight was never computed.
    const known = sequences.flatMap(({ measures, onPolicy }) => measures?.['phi'] ?? (onPolicy ? [1] : []));
    return known.length > 0 ? { 'vespo/phi_seq_mean': mean(known) } : {};
  },
};
