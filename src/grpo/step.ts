/** What the loop yields: a step, and for one that was refused, because a number was not finite, what it leaves behind. */
import type { KnownMetrics } from '../base/metric-names';
import type { StepMetrics } from '../base/types';
import type { GenerationBatch } from './batch';
import type { LoopPosition, StepContext } from './context';
import { memoryMetrics } from './metrics';
import { NonFiniteError, type Evidence, type NonFinite } from './non-finite';
import { nextPrompts } from './prompts';
import { groupsPerBatch } from '../base/batches';
import { groupsToBegin } from '../base/queue';
import type { OpenBatch } from './sample';
import { scheduleFactor } from './schedule';
import type { UpdateResult } from './update';

export interface Refusal {
  found: NonFinite;
  /** The completions of the phase that found it. */
  batch: OpenBatch;
  evidence: Evidence;
  /** The number of the slice and what was measured; null if the step was refused before its update. */
  update: { slice: number; result: UpdateResult } | null;
}

export interface LoopStep {
  /** From 1. */
  index: number;
  metrics: StepMetrics;
  /** The batch if this step generated it; null: it is left over from an earlier step, or was refused. */
  generated: GenerationBatch | null;
  /** Why the step was not applied; null: it was. */
  refusal: Refusal | null;
  /** Where the next step continues from; after a refusal, if the step is skipped. */
  position: LoopPosition;
}

/** null for an update that was applied. */
export function refusedUpdate(batch: OpenBatch, slice: number, result: UpdateResult): Refusal | null {
  const { nonFinite: found } = result;
  if (found === null) return null;
  return { found, batch, evidence: { samples: batch.samples }, update: { slice, result } };
}

/**
 * The step for which no batch could be made. Skipping it also skips its prompts, and all groups in flight; the rewards'
 * states and token counts stay as they were.
 * @throws `error` itself unless it says that something was not finite
 */
export async function refusedGeneration(
  error: unknown,
  context: StepContext,
  { loop: state, inFlight }: LoopPosition,
  elapsedMs: number,
): Promise<LoopStep> {
  if (!(error instanceof NonFiniteError)) throw error;
  const { found, evidence } = error;
  const { config, schedule, engine, order, watch } = context;
  const wanted =
    config.groupsInFlight === null
      ? groupsPerBatch(config)
      : groupsToBegin(config, state.step, inFlight.length);
  const { cursor } = await watch.phase('generate', () => nextPrompts(context, state.cursor, wanted));
  const index = state.step + 1;
  const metrics: KnownMetrics = {
    step: index,
    learning_rate: config.learningRate * scheduleFactor(schedule, state.step),
    update_applied: 0,
    epoch: cursor / order.size,
    num_tokens: state.numTokens,
    step_time: elapsedMs / 1000,
    ...memoryMetrics(await engine.memory()),
  };
  const batch = { samples: evidence.samples, tokens: 0, metrics: {}, updatesDone: 0 };
  const loop = { ...state, step: index, cursor, refused: state.refused + 1 };
  const position = { loop, open: null, inFlight: [] };
  const refusal = { found, batch, evidence, update: null };
  return { index, metrics, generated: null, refusal, position };
}
