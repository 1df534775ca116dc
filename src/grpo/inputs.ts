/** What a run reads before any model is loaded: here mistakes show before a file is written. */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { resolveConfig, type Config, type ConfigInput } from '../config';
import { loadDataset, type Dataset } from '../data';
import type { Engine } from '../engine/types';
import { resolveModel, type ModelFetchOptions } from '../models';
import { listRewards, resolveReward } from '../rewards';
import { loadTokenizer, type Tokenizer } from '../tokenizer';
import type { WeightedReward } from './context';

/** Parts a caller may bring; the rest is made from the configuration. */
export interface SessionParts {
  /** Stays open when the run ends. */
  engine?: Engine;
  tokenizer?: Tokenizer;
  trainData?: Dataset;
  evalData?: Dataset;
}

export interface Inputs {
  rewards: WeightedReward[];
  modelDirectory: string;
  tokenizer: Tokenizer;
  trainData: Dataset;
  /** null: nothing is evaluated. */
  evalData: Dataset | null;
}

/** `resolveConfig` that also knows the rewards. */
export function resolveTrainConfig(
  layers: readonly (ConfigInput & { preset?: string })[],
  preset?: string,
): Config {
  return resolveConfig(
    layers,
    preset,
    listRewards().map(({ name }) => name),
  );
}

/** The configured rewards with their parameters bound. Throws BAD_CONFIG for an unknown name or parameter. */
export function bindRewards(config: Config): WeightedReward[] {
  const entries =
    typeof config.reward === 'string' ? [{ name: config.reward, weight: 1, params: {} }] : config.reward;
  return entries.map(({ name, weight, params }) => ({
    reward: resolveReward(name, { ...config.rewardParams[name], ...params }),
    weight,
  }));
}

async function openEvalData(config: Config, parts: SessionParts): Promise<Dataset | null> {
  if (config.evalProblems + config.evalSampledProblems === 0) return null;
  const name = config.evalDataset ?? config.dataset;
  return parts.evalData ?? (await loadDataset({ name, split: 'eval', seed: config.seed }));
}

/**
 * A run may be resumed from another folder and after the hub has moved on, so paths in its stored configuration are
 * absolute and a model of the hub has its commit. Fetches that model where it is not in the cache.
 */
export async function withLastingNames(config: Config, options: ModelFetchOptions): Promise<Config> {
  const absolute = <Name extends string | null>(name: Name) =>
    name !== null && existsSync(name) ? resolve(name) : name;
  const { dataset, evalDataset, model } = config;
  return {
    ...config,
    model: (await resolveModel(model, options)).name,
    dataset: dataset === 'tiny' ? dataset : absolute(dataset),
    evalDataset: evalDataset === 'tiny' ? evalDataset : absolute(evalDataset),
  };
}

export async function openInputs(
  config: Config,
  parts: SessionParts,
  options: ModelFetchOptions,
): Promise<Inputs> {
  const rewards = bindRewards(config);
  const { directory: modelDirectory } = await resolveModel(config.model, options);
  const trainData =
    parts.trainData ?? (await loadDataset({ name: config.dataset, split: 'train', seed: config.seed }));
  const evalData = await openEvalData(config, parts);
  const tokenizer = parts.tokenizer ?? (await loadTokenizer(modelDirectory));
  return { rewards, modelDirectory, tokenizer, trainData, evalData };
}
