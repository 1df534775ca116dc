/**
 * Notices that the engine's sampler and trainer disagree by more than rounding explains, as wrong CUDA kernels of either
 * make them, finds out by libtorch's operations which of the two is wrong, and leaves its kernels out from then on.
 */
import { dealtByTokens } from '../base/dealing';
import { runsByTokens, splitPerToken } from '../base/packing';
import type { Dtype, KernelFamily, Model } from '../engine/types';
import type { Drift, KnownLogprobs, ScoreContext } from './context';
import type { Sample } from './sample';
import { scoreSamples } from './score';

/**
 * The mean |difference| of log-probs over a step, in nats a token, above which to look: several times what rounding makes
 * of it. null: that type has no kernels.
 */
const BOUND: Record<Dtype, number | null> = { bfloat16: 0.05, float32: 1e-3, float64: null };

/** What computed each side's log-probs. */
const SIDES: readonly { family: KernelFamily; made: string }[] = [
  { family: 'decode', made: 'decoding' },
  { family: 'training', made: 'scoring and training' },
];

type DriftContext = Omit<ScoreContext, 'reference'>;

/** The mean |difference| over all tokens that both know; 0 without any. */
function meanGap(samples: readonly Sample[], a: KnownLogprobs, b: KnownLogprobs): number {
  let [total, tokens] = [0, 0];
  for (const sample of samples) {
    const [left, right] = [a(sample), b(sample)];
    if (left === null || right === null) continue;
    for (let t = 0; t < left.length; t++) total += Math.abs(left[t]! - right[t]!);
    tokens += left.length;
  }
  return tokens === 0 ? 0 : total / tokens;
}

const bySampler: KnownLogprobs = (sample) => sample.sampledLogprobs;

/** Log-probs by the kernels that are in use now, on all ranks. */
async function scoredAgain(context: DriftContext, samples: readonly Sample[]): Promise<KnownLogprobs> {
  const shares = dealtByTokens(context.ranks.size, runsByTokens(samples)).map((runs) => runs.flat());
  const own = shares[context.ranks.rank]!;
  const scored = await context.ranks.gather('scoring again', async () => {
    const values = new Map<Sample, Float64Array>();
    await scoreSamples(context, own, context.policy, (members, { logprobs }) => {
      splitPerToken(logprobs, members).forEach((part, i) => values.set(members[i]!, part));
    });
    return own.map((sample) => values.get(sample)!);
  });
  const all = scored.flat();
  const known = new Map(shares.flat().map((sample, i) => [sample, all[i]!]));
  return (sample) => known.get(sample) ?? null;
}

export class KernelDrift implements Drift {
  /** Once is enough: afterwards there is nothing left to leave out. */
  private looked = false;
  /** Which sides' kernels this process used. */
  private used: boolean[] = [];

  constructor(
    private readonly model: Pick<Model, 'info' | 'leaveOutKernels'>,
    private readonly warn: (message: string) => void,
  ) {}

  async settle(
    context: DriftContext,
    samples: readonly Sample[],
    ofTrainer: KnownLogprobs,
  ): Promise<boolean> {
    const bound = BOUND[this.model.info.dtype];
    if (this.looked || bound === null || this.model.leaveOutKernels === undefined) return false;
    const gap = meanGap(samples, bySampler, ofTrainer);
    if (!(gap > bound)) return false;
    this.looked = true;
    const drift = `sampler and trainer are ${gap.toFixed(3)} nats a token apart, more than the ${bound} that rounding explains`;
    if (!(await this.leaveOutBoth(context, drift))) return false;
    const measured = samples.filter((sample) => ofTrainer(sample) !== null);
    const exact = await scoredAgain(context, measured);
    // One of the gaps is at least half of the whole one.
    const wrong = [bySampler, ofTrainer].map((side) => meanGap(measured, side, exact) > bound / 2);
    for (const [i, { family }] of SIDES.entries()) {
      if (!wrong[i] && this.used[i]!) await this.model.leaveOutKernels(family, '');
    }
    const left = SIDES.filter((_, i) => wrong[i]).map(({ made }) => made);
    this.warn(
      `${drift}. Scored again with libtorch's operations: acoer's CUDA kernels of ${left.join(' and of ')} differ from them and are left out from now on, which is slower; please report it.`,
    );
    return wrong[1]!;
  }

  /** @returns whether kernels were in use on any rank */
  private async leaveOutBoth({ ranks }: DriftContext, why: string): Promise<boolean> {
    const used = await ranks.gather('leaving out kernels', async () => {
      for (const { family } of SIDES) this.used.push(await this.model.leaveOutKernels!(family, why));
      return this.used.includes(true);
    });
    return used.includes(true);
  }
}
