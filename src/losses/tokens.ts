/** The sum over tokens that TRL's losses share: importance ratios, a token's rule, weights, the KL term. */
import { needFunction, needObject } from '../base/border';
import type { LossBatch, LossResult, LossSettings } from './types';

/** One token's loss with its derivatives; the same record is reused for all tokens. */
export interface TokenTerm {
  loss: number;
  /** dloss/dratio */
  slopeRatio: number;
  /** dloss/dlogprob, apart from the path through the ratio. */
  slopeLogprob: number;
}

/** The tokens [from, to) of sequence `index`. */
export interface SequenceTokens {
  index: number;
  from: number;
  to: number;
  /** Tokens in the loss. */
  active: number;
  advantage: number;
}

/** Sets `term` for a token whose importance ratio is `ratio`. */
export type TokenRule = (term: TokenTerm, ratio: number, logprob: number) => void;

export interface TokenLoss {
  /** The rule for the tokens of a sequence. */
  ruleOf: (sequence: SequenceTokens) => TokenRule;
  /** Average each sequence's tokens before summing over sequences. */
  meanOfSequence?: boolean;
  /** The rule applies the importance weights itself. */
  weighsItself?: boolean;
}

/** Sums the losses of all unmasked tokens. The caller fills in `measures`. */
export function sumOverTokens(
  batch: LossBatch,
  settings: LossSettings,
  tokenLoss: TokenLoss,
): Omit<LossResult, 'measures'> {
  for (const [what, value] of Object.entries({ batch, settings, loss: tokenLoss })) needObject(what, value);
  const { ruleOf, meanOfSequence = false, weighsItself = false } = tokenLoss;
  needFunction('ruleOf', ruleOf);
  const result = { loss: 0, slopes: new Float64Array(batch.logprobs.length), klSum: 0 };
  const weights = weighsItself ? null : batch.importanceWeights;
  for (const sequence of sequencesOf(batch)) {
    const weight = 1 / (settings.normalizer * (meanOfSequence ? Math.max(sequence.active, 1) : 1));
    addSequence(batch, settings, sequence, { rule: ruleOf(sequence), weights, weight }, result);
  }
  return result;
}

/** log(ratio) of token t; 0 on-policy. */
export const logRatio = ({ logprobs, oldLogprobs }: LossBatch, t: number): number =>
  oldLogprobs === null ? 0 : logprobs[t]! - oldLogprobs[t]!;

function* sequencesOf({ offsets, mask, advantages }: LossBatch): Generator<SequenceTokens> {
  for (let index = 0; index < advantages.length; index++) {
    const [from, to] = [offsets[index]!, offsets[index + 1]!];
    let active = 0;
    for (let t = from; t < to; t++) active += mask[t]!;
    yield { index, from, to, active, advantage: advantages[index]! };
  }
}

interface Weighted {
  rule: TokenRule;
  /** [N] weights of the importance correction. */
  weights: Float64Array | null;
  /** Weight of each token in the update's loss. */
  weight: number;
}

function addSequence(
  batch: LossBatch,
  settings: LossSettings,
  sequence: SequenceTokens,
  { rule, weights, weight }: Weighted,
  result: Omit<LossResult, 'measures'>,
): void {
  const { mask, logprobs, kept } = batch;
  const { slopes } = result;
  const byToken = settings.level === 'token';
  const whole = byToken ? 1 : sequenceRatio(batch, sequence);
  const term: TokenTerm = { loss: 0, slopeRatio: 0, slopeLogprob: 0 };
  let ratioSlope = 0;
  for (let t = sequence.from; t < sequence.to; t++) {
    if (mask[t] === 0) continue;
    const ratio = byToken ? Math.exp(logRatio(batch, t)) : whole;
    rule(term, ratio, logprobs[t]!);
    if (kept !== null && kept[t] === 0) term.loss = term.slopeRatio = term.slopeLogprob = 0;
    else if (weights !== null) scale(term, weights[t]!);
    if (settings.beta !== 0)
      result.klSum += addKl(term, settings, ratio, logprobs[t]!, batch.refLogprobs![t]!);
    result.loss += weight * term.loss;
    slopes[t]! += weight * term.slopeLogprob;
    // A ratio that has no part in the loss may be infinite.
    if (term.slopeRatio === 0) continue;
    if (byToken) slopes[t]! += weight * term.slopeRatio * ratio;
    else ratioSlope += weight * term.slopeRatio;
  }
  if (ratioSlope === 0) return;
  // The sequence's ratio changes by ratio / active per unit of each token's log-prob.
  const slope = (ratioSlope * whole) / sequence.active;
  for (let t = sequence.from; t < sequence.to; t++) if (mask[t] !== 0) slopes[t]! += slope;
}

/** exp of the mean log-ratio over the unmasked tokens (GSPO). */
function sequenceRatio(batch: LossBatch, { from, to, active }: SequenceTokens): number {
  let sum = 0;
  for (let t = from; t < to; t++) if (batch.mask[t] !== 0) sum += logRatio(batch, t);
  return Math.exp(sum / Math.max(active, 1));
}

function scale(term: TokenTerm, factor: number): void {
  term.loss *= factor;
  term.slopeRatio *= factor;
  term.slopeLogprob *= factor;
}

/**
 * Adds the KL term against the base to a token's loss: beta times Schulman's k3 estimate, exp(gap) - gap - 1 with gap =
 * ref - logprob, which is returned. `klBiasCorrection` (TRL's `use_bias_correction_kl`) multiplies it by the importance
 * ratio, including the ratio's gradient.
 */
function addKl(
  term: TokenTerm,
  { beta, klBiasCorrection }: LossSettings,
  ratio: number,
  logprob: number,
  refLogprob: number,
): number {
  const gap = refLogprob - logprob;
  const k3 = Math.expm1(gap) - gap;
  const factor = klBiasCorrection ? ratio : 1;
  term.loss += beta * k3 * factor;
  term.slopeLogprob -= beta * factor * Math.expm1(gap);
  if (klBiasCorrection) term.slopeRatio += beta * k3;
  return k3 * factor;
}
