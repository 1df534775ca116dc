/** Refused steps, not applied because a number was not finite, and what they leave behind. */
import type { KnownMetrics } from '../base/metric-names';
import type { StepContext, LoopState } from './context';
import { memoryMetrics } from './metrics';
import { NonFiniteError } from './non-finite';
import { nextPrompts } from './prompts';
import type { OpenBatch } from './sample';
import { scheduleFactor } from './schedule';
import type { LoopStep, Refusal } from './step';
import type { UpdateResult } from './update';

/** null for an update that was applied. */
export function refusedUpdate(batch: OpenBatch, slice: number, result: UpdateResult): Refusal | null {
  const { nonFinite: found } = result;
  if (found === null) return null;
  return { found, batch, evidence: { samples: batch.samples }, update: { slice, result } };
}

/**
 * The step for which no batch could be made. Skipping it also skips its prompts; the rewards' states and
 * token counts stay as they were.
 * @throws `error` itself unless it says that something was not finite
 */
export async function refusedGeneration(
  error: unknown,
  context: StepContext,
  state: LoopState,
  elapsedMs: number,
): Promise<LoopStep> {
  if (!(error instanceof NonFiniteError)) throw error;
  const { found, evidence } = error;
  const { config, schedule, engine, order, watch } = context;
  const wanted = config.promptsPerStep * config.stepsPerGeneration;
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
  const position = { loop: { ...state, step: index, cursor, refused: state.refused + 1 }, open: null };
  return {
    index,
    metrics,
    generated: null,
    refusal: { found, batch, evidence, update: null },
    position,
  };
}
