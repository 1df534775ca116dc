/** How well a policy predicts completions that it is not trained on. */
import type { Model, Policy } from '../engine/types';
import { AcoerError } from '../base/errors';
import type { MemoryLimits } from '../grpo/memory';
import type { Watch } from '../grpo/watch';
import type { SftEvaluation } from '../life/events';
import { packSequences, type Tokens } from '../base/packing';
import { sum } from '../base/statistics';

export interface EvaluationContext {
  model: Model;
  policy: Policy;
  memory: MemoryLimits;
  watch: Watch;
  signal: AbortSignal;
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
  await memory.inBins('scoring', examples, pass, restart);
  const { tokens } = totals;
  const evaluation = { loss: totals.loss / tokens, entropy: totals.entropy / tokens };
  if (Number.isFinite(evaluation.loss)) return evaluation;
  throw new AcoerError(
    'NOT_FINITE',
    'The loss on the held-out examples is not finite; lower learningRate, or look for a fault in the data.',
  );
}
