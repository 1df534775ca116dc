/** What can be asked: a model, what runs have trained on it, and adapters that came later, by name. */
import { existsSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { badInput, badUsage } from '../base/errors';
import { isRecord, parsedJson } from '../base/json';
import { readRegularFileSync } from '../base/regular-file';
import type { Quantization } from '../engine/types';
import { trainedModel, type TrainedWeights, trainedWeights } from '../life/trained';
import { RunDirectory } from '../run';

/** The model itself. */
export const BASE = 'base';

export interface Opening {
  /** As `resolveModel` takes it. */
  model: string;
  /** In the order in which they are listed. */
  weights: TrainedWeights[];
  /** Of the model's linear weights. */
  quantization: Quantization | null;
}

const MOST_CONFIG_BYTES = 64 * 1024 * 1024;

/** A run's config.json names its model; a model's own says what kind it is. */
function isRun(path: string): boolean {
  const config = join(path, 'config.json');
  if (!existsSync(config)) return false;
  const settings = parsedJson(readRegularFileSync(config, MOST_CONFIG_BYTES).toString('utf8'));
  return isRecord(settings) && typeof settings['model'] === 'string' && !('model_type' in settings);
}

function checkNotInside(path: string): void {
  if (!existsSync(join(path, 'adapter_config.json'))) return;
  throw badInput(
    `${path} is an adapter; name the run that it is in, or its model, with the adapter as --adapter NAME=FOLDER.`,
  );
}

function weightsOf(path: string, several: boolean): TrainedWeights[] {
  const weights = trainedWeights(new RunDirectory(path));
  if (weights.length === 0)
    throw badInput(`${path} has neither final/ nor a checkpoint yet; there is nothing to ask.`);
  return several ? weights.map((one) => ({ ...one, name: `${basename(path)}/${one.name}` })) : weights;
}

/** As was asked, or else what the runs were trained over. @throws BAD_CONFIG for runs that differ in it */
function quantizationOf(
  runs: readonly { path: string; quantization: Quantization | null }[],
  asked: Quantization | null | undefined,
): Quantization | null {
  if (asked !== undefined) return asked;
  const [first] = runs;
  const other = runs.find(({ quantization }) => quantization !== first?.quantization);
  if (other === undefined) return first?.quantization ?? null;
  throw badUsage(
    `${first!.path} and ${other.path} were trained over bases that are not quantised alike; start one program for each, or say --quantization.`,
  );
}

/**
 * @param paths a model's name or folder, or runs on one model
 * @param asked how its linear weights are to be quantised; undefined: as the runs say
 * @throws BAD_INPUT, BAD_CONFIG for runs of different models
 */
export function openingOf(paths: readonly string[], asked?: Quantization | null): Opening {
  paths.forEach(checkNotInside);
  const runs = paths.filter(isRun).map((path) => resolve(path));
  const others = paths.filter((path) => !isRun(path));
  const named = runs.map((path) => ({ path, ...trainedModel(new RunDirectory(path)) }));
  const models = new Set([...others, ...named.map(({ model }) => model)]);
  if (models.size !== 1) {
    throw badUsage(
      `All must be of one model, but these are of ${models.size}: ${[...models].join(', ')}; start one program for each.`,
    );
  }
  const weights = runs.flatMap((path) => weightsOf(path, runs.length > 1));
  const twice = weights.find(({ name }, i) => weights.findIndex((one) => one.name === name) !== i);
  if (twice !== undefined)
    throw badUsage(`Two of the runs would be called ${twice.name}; rename the folder of one.`);
  return { model: [...models][0]!, weights, quantization: quantizationOf(named, asked) };
}
