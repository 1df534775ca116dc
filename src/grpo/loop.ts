/** The loop: generate a batch, update on its slices, say what happened. Writes nothing; `run.ts` does. */
import { finiteMetrics } from '../run';
import type { StepMetrics } from '../types';
import { makeGenerationBatch, updatesPerGeneration, type GenerationBatch, type OpenBatch } from './batch';
import type { LoopContext, LoopPosition } from './context';
import { costMetrics, generationMetrics, updateMetrics } from './metrics';
import { updateOnSlice, type UpdateResult } from './update';

export interface LoopStep {
  /** From 1. */
  index: number;
  metrics: StepMetrics;
  /** The batch, when it was generated in this step and is not left over from an earlier one. */
  generated: GenerationBatch | null;
  update: UpdateResult;
  /** Where the next step goes on from. */
  position: LoopPosition;
}

function opened(context: LoopContext, batch: GenerationBatch): OpenBatch {
  const { finite: metrics } = finiteMetrics(generationMetrics(context, batch));
  return { samples: batch.samples, tokens: batch.tokens, metrics, updatesDone: 0 };
}

/**
 * The updates from `start` to `maxSteps`, each made when it is asked for: every slice of a batch in turn, `numIterations`
 * times.
 */
export async function* trainSteps(context: LoopContext, start: LoopPosition): AsyncGenerator<LoopStep, void> {
  const { maxSteps, stepsPerGeneration } = context.config;
  let { state, open } = start;
  context.memory.restore(state.memory);
  while (state.step < maxSteps) {
    context.signal?.throwIfAborted();
    const generated = open === null ? await makeGenerationBatch(context, state) : null;
    const batch: OpenBatch = generated === null ? open! : opened(context, generated);
    const slice = batch.updatesDone % stepsPerGeneration;
    const update = await updateOnSlice(context, batch, slice, state);
    const index = state.step + 1;
    const cost = costMetrics(context, generated, update, await context.engine.memory());
    const metrics = { step: index, ...updateMetrics(context, update), ...batch.metrics, ...cost };
    state = { ...(generated?.state ?? state), step: index, memory: context.memory.state() };
    const updatesDone = batch.updatesDone + 1;
    open = updatesDone < updatesPerGeneration(context) ? { ...batch, updatesDone } : null;
    yield { index, metrics, generated, update, position: { state, open } };
  }
}
