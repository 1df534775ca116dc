/** What the loop yields: a step, and why it was refused. */
import type { StepMetrics } from '../base/types';
import type { GenerationBatch } from './batch';
import type { LoopPosition } from './context';
import type { Evidence, NonFinite } from './non-finite';
import type { OpenBatch } from './sample';
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
