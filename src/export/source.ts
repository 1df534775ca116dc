/** What is exported: the weights of one step of a run, and the model under them. */
import { join } from 'node:path';
import type { Quantization, WeightSource } from '../engine/types';
import { baseModelOf, checkBaseModel } from '../life/base-model';
import { trainedModel } from '../life/trained';
import { modelFingerprints, resolveModel, type ModelFetchOptions } from '../models';
import { RunDirectory, trainedFolder, weightsFile } from '../run';

export interface ExportSource {
  run: RunDirectory;
  /** As the run names it: `tiny`, an absolute path, or `org/name@commit`. */
  modelName: string;
  /** Folder of the model's config, tokenizer and weights. */
  model: string;
  /** Folder of what was trained. */
  trained: string;
  /** null: all weights were trained. */
  adapter: string | null;
  /** Steps that `trained` has been trained for. */
  step: number;
  weights: WeightSource;
  /** How the base's linear weights were quantised in training; what is exported has the model's own. */
  quantization: Quantization | null;
}

/**
 * @param step of a checkpoint; null: `final/`, or the newest checkpoint of a run that has not ended
 * @throws BAD_INPUT for a folder that is no run, or a model that is not the one that was trained
 */
export async function openSource(
  path: string,
  step: number | null,
  options: ModelFetchOptions = {},
): Promise<ExportSource> {
  const run = new RunDirectory(path);
  const { model: modelName, full, quantization } = trainedModel(run);
  const trained = trainedFolder(run, step);
  const { directory: model } = await resolveModel(modelName, options);
  const base = baseModelOf(trained);
  if (base !== null) checkBaseModel(base, model, await modelFingerprints(model, options.signal));
  const adapter = full ? null : trained;
  const weights = full ? join(trained, weightsFile(trained)) : null;
  return {
    ...{ run, modelName, model, trained, adapter },
    step: base?.step ?? step ?? 0,
    quantization,
    weights: { model, weights, adapter },
  };
}
