/** The loop: generate a batch, update on its slices, report. Writes no files; `train/run.ts` does. */
import type { KnownMetrics } from '../base/metric-names';
import { updatesPerBatch } from '../base/batches';
import { finiteNumbers } from '../base/json';
import { makeGenerationBatch, type GenerationBatch } from './batch';
import { type LoopContext, type LoopControl, type LoopPosition, type StepContext } from './context';
import { lowestLimits } from './memory';
import { costMetrics, generationMetrics, rankMetrics, updateMetrics } from './metrics';
import type { OpenBatch } from './sample';
import { refusedGeneration, refusedUpdate, type LoopStep } from './step';
import { updateOnSlice } from './update';

function opened(context: StepContext, batch: GenerationBatch): OpenBatch {
  const { finite: metrics } = finiteNumbers(generationMetrics(context, batch));
  return { samples: batch.samples, tokens: batch.tokens, metrics, updatesDone: 0 };
}

/**
 * Work is cut by the same limits on every rank, so that one stored state serves all of them.
 * @returns how long each rank has waited for others in this step
 */
async function settle({ ranks, memory }: StepContext): Promise<number[]> {
  const all = await ranks.gather('the end of the step', () =>
    Promise.resolve({ learnt: memory.state(), waitedMs: ranks.takeWaitedMs() }),
  );
  memory.restore(lowestLimits(all.map(({ learnt }) => learnt)));
  return all.map(({ waitedMs }) => waitedMs);
}

/** The next update from `batch`. @param generated the same batch, if this step generated it */
async function updateStep(
  context: StepContext,
  { loop: state, inFlight: before }: LoopPosition,
  batch: OpenBatch,
  generated: GenerationBatch | null,
): Promise<LoopStep> {
  const slice = batch.updatesDone % context.config.stepsPerGeneration;
  const update = await updateOnSlice(context, batch, slice, state);
  const index = state.step + 1;
  const memory = await context.watch.phase('optimizer', () => context.engine.memory());
  const waitedMs = await settle(context);
  const cost = {
    ...costMetrics(context, generated, update, memory),
    ...rankMetrics(generated?.shares ?? [], waitedMs),
  };
  const own: KnownMetrics = { step: index, ...updateMetrics(context, update) };
  const metrics = { ...own, ...batch.metrics, ...cost };
  const refusal = refusedUpdate(batch, slice, update);
  const refused = refusal === null ? 0 : state.refused + 1;
  const updatesDone = batch.updatesDone + 1;
  const open = updatesDone < updatesPerBatch(context.config) ? { ...batch, updatesDone } : null;
  const next = { ...(generated?.state ?? state), step: index, refused, memory: context.memory.state() };
  const position = { loop: next, open, inFlight: generated?.inFlight ?? before };
  return { index, metrics, generated, refusal, position };
}

async function nextStep(context: StepContext, position: LoopPosition): Promise<LoopStep> {
  // What was waited for between two steps, such as an evaluation, is not this one's.
  context.ranks.takeWaitedMs();
  if (position.open !== null) return updateStep(context, position, position.open, null);
  const started = performance.now();
  let generated: GenerationBatch;
  try {
    generated = await makeGenerationBatch(context, position);
  } catch (error) {
    return refusedGeneration(error, context, position, performance.now() - started);
  }
  return updateStep(context, position, opened(context, generated), generated);
}

async function* stepsFrom(context: StepContext, start: LoopPosition): AsyncGenerator<LoopStep, void> {
  let position = start;
  context.memory.restore(position.loop.memory);
  while (position.loop.step < context.config.maxSteps) {
    context.signal?.throwIfAborted();
    context.watch.atStep(position.loop.step + 1);
    const step = await nextStep(context, position);
    ({ position } = step);
    yield step;
  }
}

/**
 * The updates from `start` to `maxSteps`, each made on demand: every slice of a batch in turn,
 * `numIterations` times. A step whose numbers are not finite is yielded with its `refusal`.
 */
export async function* trainSteps(
  context: LoopContext,
  start: LoopPosition,
  control: LoopControl = {},
): AsyncGenerator<LoopStep, void> {
  const { ranks } = context;
  let failure: unknown;
  try {
    const loop = await ranks.fromFirst('starting', () => Promise.resolve(start.loop));
    yield* stepsFrom({ ...context, ...control }, { ...start, loop });
  } catch (error) {
    failure = error;
    throw error;
  } finally {
    await ranks.leave(failure);
  }
}
