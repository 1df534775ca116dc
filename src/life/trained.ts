/** What a run has trained so far, and the model under it: for everything that uses a run's result. */
import { existsSync } from 'node:fs';
import { z } from 'zod';
import { badInput } from '../base/errors';
import { configSchema } from '../config';
import type { Quantization } from '../engine/types';
import { checked, type RunDirectory } from '../run';
import { baseModelOf } from './base-model';

const SETTINGS = z.looseObject({
  model: z.string(),
  full: z.boolean().default(false),
  quantization: configSchema.shape.quantization,
});

export interface TrainedModel {
  /** As the run names it: `tiny`, an absolute path, or `org/name@commit`. */
  model: string;
  /** All weights were trained; otherwise an adapter. */
  full: boolean;
  /** Of the base's linear weights while it was trained. */
  quantization: Quantization | null;
}

/** @throws BAD_INPUT for a folder that is no run */
export function trainedModel(run: RunDirectory): TrainedModel {
  if (!existsSync(run.config())) throw badInput(`${run.path} is not a run: it has no config.json.`);
  return checked(SETTINGS, run.config(), run.settings());
}

/** Weights that a run has kept. */
export interface TrainedWeights {
  /** `final`, or `step-100`. */
  name: string;
  folder: string;
  step: number;
}

/** `final` first, then the checkpoints in order, without that of step 0, which is the model itself. */
export function trainedWeights(run: RunDirectory): TrainedWeights[] {
  const checkpoints = run
    .checkpointSteps()
    .filter((step) => step > 0)
    .map((step) => ({ name: `step-${step}`, folder: run.checkpoint(step), step }));
  if (!existsSync(run.final())) return checkpoints;
  const step = baseModelOf(run.final())?.step ?? checkpoints.at(-1)?.step ?? 0;
  return [{ name: 'final', folder: run.final(), step }, ...checkpoints];
}
