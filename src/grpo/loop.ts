/** The loop: generate a batch, update on its slices, say what happened. Writes nothing; `train.ts` does. */
import type { StepMetrics } from '../types';
import { makeGenerationBatch, type GenerationBatch } from './batch';
import type { LoopContext, LoopState } from './context';
import { costMetrics, generationMetrics, updateMetrics } from './metrics';
import { updateOnSlice, type UpdateResult } from './update';

export interface LoopStep {
  /** From 1. */
  index: number;
  metrics: StepMetrics;
  batch: GenerationBatch;
  update: UpdateResult;
  /** The batch was generated in this step (not left over from an earlier one). */
  generatedNow: boolean;
  /** The state to resume from, or null in the middle of a generated batch. */
  state: LoopState | null;
}

/** The updates from `start` to `maxSteps`. Each is made when it is asked for. */
export async function* trainSteps(context: LoopContext, start: LoopState): AsyncGenerator<LoopStep, void> {
  const { maxSteps } = context.config;
  let state = start;
  while (state.step < maxSteps) {
    context.signal?.throwIfAborted();
    const batch = await makeGenerationBatch(context, state);
    const ofBatch = generationMetrics(context, batch);
    const slices = slicesOf(context, maxSteps - state.step);
    for (const [position, slice] of slices.entries()) {
      const generatedNow = position === 0;
      const update = await updateOnSlice(context, batch, slice, state.step + position);
      const index = state.step + position + 1;
      const cost = costMetrics(batch, update, generatedNow, await context.engine.memory());
      const metrics = { step: index, ...updateMetrics(context, update), ...ofBatch, ...cost };
      const last = position === slices.length - 1;
      yield {
        index,
        metrics,
        batch,
        update,
        generatedNow,
        state: last ? { ...batch.state, step: index } : null,
      };
    }
    state = { ...batch.state, step: state.step + slices.length };
  }
}

/** Slice of the batch per update: every slice in turn, `numIterations` times, no more than there are steps left. */
function slicesOf({ config }: LoopContext, stepsLeft: number): number[] {
  const { stepsPerGeneration, numIterations } = config;
  const updates = Math.min(stepsPerGeneration * numIterations, stepsLeft);
  return Array.from({ length: updates }, (_, i) => i % stepsPerGeneration);
}
