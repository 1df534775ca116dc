/** Supervised training of a full policy by the same engine that GRPO uses. */
import { RandomStream } from '../data/random';
import { trlLoss } from '../engine/loss-defaults';
import type { Policy } from '../engine/types';
import type { Tokenizer } from '../tokenizer';
import { bucket, drawPool, type Example, packBatch } from './batches';
import type { Phase } from './phases';

export interface SupervisedOptions {
  policy: Policy;
  tokenizer: Tokenizer;
  seed: number;
  onStep(report: { phase: string; step: number; nll: number; gradNorm: number; tokens: number }): void;
}

/** Batches whose examples are drawn and sorted by length together. */
const BATCHES_PER_POOL = 32;

function learningRateAt(phase: Phase, step: number): number {
  if (step < phase.warmupSteps) return (phase.learningRate * (step + 1)) / phase.warmupSteps;
  const progress = (step - phase.warmupSteps) / Math.max(1, phase.steps - phase.warmupSteps);
  const cosine = (1 + Math.cos(Math.PI * progress)) / 2;
  return phase.learningRate * (phase.finalRate + (1 - phase.finalRate) * cosine);
}

/** Endless batches of about `tokensPerStep` tokens; a function of (seed, phase name). */
function* batches(options: SupervisedOptions, phase: Phase): Generator<Example[]> {
  const random = new RandomStream(options.seed, `tiny-model ${phase.name}`);
  for (;;) {
    const draw = () => phase.draw(options.tokenizer, random);
    const pool = drawPool(draw, BATCHES_PER_POOL, phase.tokensPerStep);
    yield* bucket(pool, phase.tokensPerStep, random);
  }
}

export async function runPhase(options: SupervisedOptions, phase: Phase): Promise<void> {
  const source = batches(options, phase);
  for (let step = 0; step < phase.steps; step++) {
    const batch = packBatch(source.next().value as Example[]);
    const tokens = batch.mask.reduce((sum, learned) => sum + learned, 0);
    // With no old log-probs and advantages 1 this loss is the mean log-likelihood of the step's tokens.
    const { logprobs } = await options.policy.accumulate(batch, trlLoss({ normalizer: tokens }));
    const { gradNorm } = await options.policy.step({
      learningRate: learningRateAt(phase, step),
      weightDecay: 0,
      maxGradNorm: 1,
    });
    const nll = -logprobs.reduce((sum, logprob, i) => sum + batch.mask[i] * logprob, 0) / tokens;
    options.onStep({ phase: phase.name, step: step + 1, nll, gradNorm, tokens: batch.ids.length });
  }
}
