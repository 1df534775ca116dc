/** Supervised training of a full policy, with the same engine that GRPO uses. */
import { RandomStream } from '../../src/data/random';
import type { Policy } from '../../src/engine/types';
import type { Tokenizer } from '../../src/tokenizer';
import { packSequences } from '../../src/base/packing';
import { bucket, drawPool, type Example } from './batches';
import type { Phase } from './phases';

export interface SupervisedOptions {
  policy: Policy;
  tokenizer: Tokenizer;
  seed: number;
  onStep(report: { phase: string; step: number; nll: number; gradNorm: number; tokens: number }): void;
}

/** Number of batches whose examples are drawn and sorted by length together. */
const BATCHES_PER_POOL = 32;

function learningRateAt(phase: Phase, step: number): number {
  if (step < phase.warmupSteps) return (phase.learningRate * (step + 1)) / phase.warmupSteps;
  const progress = (step - phase.warmupSteps) / Math.max(1, phase.steps - phase.warmupSteps);
  const cosine = (1 + Math.cos(Math.PI * progress)) / 2;
  return phase.learningRate * (phase.finalRate + (1 - phase.finalRate) * cosine);
}

/** Endless batches of about `tokensPerStep` tokens; determined by (seed, phase name). */
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
    const examples = source.next().value as Example[];
    const mask = Uint8Array.from(examples.flatMap((example) => [...example.mask]));
    const tokens = mask.reduce((sum, learned) => sum + learned, 0);
    const batch = packSequences(examples);
    const { logprobs } = await options.policy.forward(batch);
    // The loss is the mean negative log-likelihood of the tokens trained on.
    await options.policy.backward(Float64Array.from(mask, (learned) => (learned === 0 ? 0 : -1 / tokens)));
    const { gradNorm } = await options.policy.step({
      learningRate: learningRateAt(phase, step),
      weightDecay: 0,
      maxGradNorm: 1,
    });
    const nll = -logprobs.reduce((sum, logprob, i) => sum + mask[i]! * logprob, 0) / tokens;
    options.onStep({ phase: phase.name, step: step + 1, nll, gradNorm, tokens: batch.ids.length });
  }
}
