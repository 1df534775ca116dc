/** The KL term against the base: Schulman's k3 estimate, exp(gap) - gap - 1 with gap = ref - logprob. */
import type { TokenTerm } from './tokens';
import type { LossSettings } from './types';

/**
 * Adds beta * k3 to a token's loss and returns the estimate. With `klBiasCorrection` (TRL's
 * `use_bias_correction_kl`) it is multiplied by the importance ratio, including the ratio's gradient.
 */
export function addKl(
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
