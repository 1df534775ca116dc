/** One update, by the mean negative log-likelihood of completions, and the same of those that are not trained on. */
import { sum } from '../base/statistics';
import type { Model } from '../engine/types';
import { AcoerError } from '../base/errors';
import type { LoopContext } from '../grpo/context';
import { DataOrder } from '../grpo/order';
import { scheduleFactor } from '../grpo/schedule';
import { apart, packSequences, sampleTokens, type Tokens } from '../base/packing';
import { streamSeed } from '../base/rng';
import type { SftConfig } from './config';
import type { SftEvaluation } from '../life/events';

export const stepsPerEpoch = (
  { batchSize }: Pick<SftConfig, 'batchSize'>,
  examples: readonly Tokens[],
): number => Math.ceil(examples.length / batchSize);

/** The examples of each step: every epoch in its own order, its last batch as small as it comes. */
export class Batches {
  private readonly order: DataOrder;
  readonly perEpoch: number;

  constructor(
    private readonly examples: readonly Tokens[],
    private readonly config: Pick<SftConfig, 'batchSize' | 'seed'>,
  ) {
    this.order = new DataOrder(examples.length, config.seed);
    this.perEpoch = stepsPerEpoch(config, examples);
  }

  /** @param step from 0 */
  at(step: number): Tokens[] {
    const { batchSize } = this.config;
    const size = this.examples.length;
    const epoch = Math.floor(step / this.perEpoch);
    const first = (step % this.perEpoch) * batchSize;
    const length = Math.min(batchSize, size - first);
    return Array.from({ length }, (_, i) => this.examples[this.order.rowAt(epoch * size + first + i)]!);
  }
}

export interface StepContext extends Pick<LoopContext, 'policy' | 'memory' | 'schedule' | 'watch'> {
  config: SftConfig;
  batches: Batches;
  signal: AbortSignal;
}

export interface StepFigures {
  loss: number;
  entropy: number;
  gradNorm: number;
  learningRate: number;
  /** Tokens of prompts and completions. */
  tokens: number;
}

function checkFinite(step: number, what: string, value: number): void {
  if (Number.isFinite(value)) return;
  const message = `The ${what} of step ${step + 1} is not finite, so the step was not made; lower learningRate, or look for a fault in the data.`;
  throw new AcoerError('NOT_FINITE', message);
}

/** Adds up the gradient of `batch`; returns the sums over its completion tokens, with none left on failure. */
async function accumulate(
  { config, policy, memory, signal, watch }: StepContext,
  batch: readonly Tokens[],
  step: number,
): Promise<{ loss: number; entropy: number }> {
  const learnt = batch.reduce((total, { completionIds }) => total + completionIds.length, 0);
  const dropoutSeed = config.loraDropout > 0 ? streamSeed(config.seed, 'dropout', step) : null;
  let totals = { loss: 0, entropy: 0 };
  const restart = async () => {
    totals = { loss: 0, entropy: 0 };
    await policy.zeroGradients();
  };
  const pass = async (members: readonly Tokens[]) => {
    const { logprobs, entropies } = await policy.forward(packSequences(members), { dropoutSeed, signal });
    totals.loss -= sum(logprobs) / learnt;
    totals.entropy += sum(entropies) / learnt;
    checkFinite(step, 'loss', totals.loss);
    // Divided by the tokens of the whole update, whatever its passes.
    await policy.backward(new Float64Array(logprobs.length).fill(-1 / learnt), { signal });
    watch.progress();
  };
  try {
    await memory.inBins('training', apart(batch), pass, restart);
    return totals;
  } catch (error) {
    await policy.zeroGradients();
    throw error;
  }
}

/** Makes the update number `step`, from 0, which determines its examples. @throws NOT_FINITE, nothing changed */
export async function sftStep(context: StepContext, step: number): Promise<StepFigures> {
  const { config, policy, batches, schedule, watch } = context;
  const batch = batches.at(step);
  const learningRate = config.learningRate * scheduleFactor(schedule, step);
  const { loss, entropy } = await watch.phase('train', () => accumulate(context, batch, step));
  const { weightDecay, maxGradNorm } = config;
  const { gradNorm, applied } = await watch.phase('optimizer', () =>
    policy.step({ learningRate, weightDecay, maxGradNorm }),
  );
  if (!applied) {
    await policy.zeroGradients();
    checkFinite(step, 'gradient', gradNorm);
  }
  const tokens = batch.reduce((total, example) => total + sampleTokens(example), 0);
  return { loss, entropy, gradNorm, learningRate, tokens };
}

export interface EvaluationContext extends Pick<StepContext, 'policy' | 'memory' | 'watch' | 'signal'> {
  model: Model;
}

/**
 * Means over all completion tokens, as TRL's eval_loss and eval_entropy.
 * @throws NOT_FINITE
 */
export async function evaluateExamples(
  { model, policy, memory, watch, signal }: EvaluationContext,
  examples: readonly Tokens[],
): Promise<SftEvaluation> {
  let totals = { loss: 0, entropy: 0, tokens: 0 };
  const restart = () => {
    totals = { loss: 0, entropy: 0, tokens: 0 };
  };
  const pass = async (members: readonly Tokens[]) => {
    const { logprobs, entropies } = await model.score(packSequences(members), { policy, signal });
    totals.loss -= sum(logprobs);
    totals.entropy += sum(entropies);
    totals.tokens += logprobs.length;
    watch.progress();
  };
  await memory.inBins('scoring', apart(examples), pass, restart);
  const { tokens } = totals;
  const evaluation = { loss: totals.loss / tokens, entropy: totals.entropy / tokens };
  if (Number.isFinite(evaluation.loss)) return evaluation;
  throw new AcoerError(
    'NOT_FINITE',
    'The loss on the held-out examples is not finite; lower learningRate, or look for a fault in the data.',
  );
}
