/** Notices a sampler that is not the engine and disagrees with the trainer by more than rounding explains. */
import { AcoerError } from '../base/errors';
import { mean } from '../base/statistics';
import type { StepMetrics } from '../base/types';

/** Consecutive measured steps after which to warn or to end. */
const STEPS = 20;
/**
 * Values of `sampling/mismatch_kl` above this are worth a look. A small difference d of log-probs gives d^2/2, so this is
 * about 0.3 nats a token; rounding a logit of 20 to bfloat16 moves it by up to 0.06.
 */
const WARN_ABOVE = 0.05;
/** About 1 nat a token: the completions are hardly the policy's, and updates from them do harm. */
const END_ABOVE = 0.5;

const LOOK = 'what to look at is in docs/external-sampler.md';

/** The last values in a row above a limit. */
class Stretch {
  private values: number[] = [];

  constructor(private readonly limit: number) {}

  /** Returns the mean of the last `STEPS` values if all are above the limit, otherwise null. */
  add(value: number): number | null {
    this.values = value > this.limit ? [...this.values, value].slice(-STEPS) : [];
    return this.values.length < STEPS ? null : mean(this.values);
  }
}

/** Warns once, and says when the run is to end. Steps that measured nothing do not count. */
export class Mismatch {
  private readonly high = new Stretch(WARN_ABOVE);
  private readonly higher = new Stretch(END_ABOVE);
  private warned = false;
  /** What the run ends with; null: it goes on. */
  ending: AcoerError | null = null;

  /** Returns a sentence once, after 20 steps in a row above 0.05, otherwise null. */
  observe(metrics: StepMetrics): string | null {
    const value = metrics['sampling/mismatch_kl'];
    if (value === undefined || Number.isNaN(value)) return null;
    const [high, higher] = [this.high.add(value), this.higher.add(value)];
    const disagree = (kl: number) =>
      `For ${STEPS} steps sampler and trainer have disagreed by more than rounding explains: sampling/mismatch_kl was ${kl.toFixed(3)} on average`;
    if (higher !== null) {
      this.ending = new AcoerError(
        'SAMPLER_FAILED',
        `The run ended after step ${metrics.step}. ${disagree(higher)}, so the sampler has other weights, or samples in another way; ${LOOK}. To continue then: --resume.`,
      );
    }
    if (high === null || this.warned) return null;
    this.warned = true;
    return `${disagree(high)}; ${LOOK}.`;
  }
}
