/** Names in a configuration that mean the same later and elsewhere, because a run may be resumed from another folder. */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { isNamedSink, type Config } from '../config';
import { withAbsolutePath } from '../data';
import { readAdapterShape, readModelSpec, resolveModel, type ModelFetchOptions } from '../models';

/** The names, in messages, of data sets that were given as rows. */
export const ROWS = 'rows';
export const EVALUATION_ROWS = 'evaluation rows';

/** What every kind of run names. */
export type NamedParts = Pick<Config, 'model' | 'dataset' | 'evalDataset' | 'adapter' | 'sinks'>;

/** The adapter that is trained, or continued. */
export type AdapterShape = Pick<Config, 'adapter' | 'loraRank' | 'loraAlpha' | 'useRslora' | 'targetModules'>;

export const withAbsoluteNames = <Settings extends NamedParts>(config: Settings): Settings => ({
  ...config,
  model: config.model !== 'tiny' && existsSync(config.model) ? resolve(config.model) : config.model,
  dataset: withAbsolutePath(config.dataset),
  evalDataset: config.evalDataset === null ? null : withAbsolutePath(config.evalDataset),
  sinks: config.sinks.map((sink) => (isNamedSink(sink) ? sink : resolve(sink))),
  adapter: config.adapter === null ? null : resolve(config.adapter),
});

/** The shape of the adapter that training continues from, in place of a new one's. @throws BAD_FILE */
async function withAdapterShape<Settings extends AdapterShape>(
  config: Settings,
  modelDirectory: string,
): Promise<Settings> {
  if (config.adapter === null) return config;
  const { numLayers } = await readModelSpec(modelDirectory);
  const {
    rank: loraRank,
    alpha: loraAlpha,
    rslora: useRslora,
    targetModules,
  } = await readAdapterShape(config.adapter, numLayers);
  return { ...config, loraRank, loraAlpha, useRslora, targetModules };
}

/**
 * A hub model by its commit, because the hub may move on. Fetches the model if it is not in the cache. With an
 * adapter's shape.
 * @param config with absolute paths
 */
export async function withLastingModel<Settings extends AdapterShape & Pick<Config, 'model'>>(
  config: Settings,
  options: ModelFetchOptions,
): Promise<Settings> {
  const { name: model, directory } = await resolveModel(config.model, options);
  return withAdapterShape({ ...config, model }, directory);
}

/** The hub commit in a stored name. */
const COMMIT = /@[0-9a-f]{40}(?=\s|$)/g;

const storedCommit = <Name extends string | null>(name: Name, stored: Name): Name =>
  stored?.replace(COMMIT, '') === name ? stored : name;

/** Hub names that are given again without a revision mean the stored commits, with which the run began. */
export const withStoredCommits = <Settings extends NamedParts>(
  wanted: Settings,
  stored: Settings,
): Settings => ({
  ...wanted,
  model: storedCommit(wanted.model, stored.model),
  dataset: storedCommit(wanted.dataset, stored.dataset),
  evalDataset: storedCommit(wanted.evalDataset, stored.evalDataset),
});
