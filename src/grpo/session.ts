/** Opening everything a run needs, in the order that finds mistakes before anything heavy is loaded. */
import { resolveConfig, type Config, type ConfigInput } from '../config';
import { loadDataset, type Dataset } from '../data';
import { createEngine } from '../engine/engine';
import type { DeviceName, Engine, Model, Policy } from '../engine/types';
import { resolveModel } from '../models';
import { listRewards, resolveReward } from '../rewards';
import { streamSeed } from '../rng';
import { loadTokenizer, type Tokenizer } from '../tokenizer';
import { hasFormat, verifyCompletion } from '../verify';
import type { LoopContext, WeightedReward } from './context';
import { DataOrder } from './order';
import { warmupSteps } from './schedule';

/** Parts a caller may bring; the rest is made from the configuration. */
export interface SessionParts {
  /** Stays open when the run ends. */
  engine?: Engine;
  tokenizer?: Tokenizer;
  trainData?: Dataset;
  evalData?: Dataset;
}

export interface Session {
  loop: LoopContext;
  evalData: Dataset | null;
  close(): Promise<void>;
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

function openEngine({ device, threads }: Config): Promise<Engine> {
  return createEngine({ device: device as DeviceName, threads: threads ?? undefined });
}

function createPolicy(model: Model, config: Config): Promise<Policy> {
  return model.createPolicy({
    kind: 'lora',
    rank: config.loraRank,
    alpha: config.loraAlpha,
    dropout: config.loraDropout,
    targetModules: config.targetModules,
    seed: streamSeed(config.seed, 'lora-init'),
    beta1: config.adamBeta1,
    beta2: config.adamBeta2,
    eps: config.adamEpsilon,
  });
}

export async function openSession(
  config: Config,
  parts: SessionParts,
  signal: AbortSignal | undefined,
): Promise<Session> {
  const rewards = bindRewards(config);
  const directory = resolveModel(config.model);
  const dataset =
    parts.trainData ?? (await loadDataset({ name: config.dataset, split: 'train', seed: config.seed }));
  const evalData = await openEvalData(config, parts);
  const tokenizer = parts.tokenizer ?? (await loadTokenizer(directory));
  const engine = parts.engine ?? (await openEngine(config));
  const opened: { dispose(): Promise<void> }[] = parts.engine === undefined ? [engine] : [];
  const close = async () => {
    for (const part of opened.splice(0).reverse()) await part.dispose();
  };
  try {
    const model = await engine.loadModel(directory, {
      ...(config.dtype !== null && { dtype: config.dtype }),
      ...(signal && { signal }),
    });
    opened.push(model);
    const policy = await createPolicy(model, config);
    opened.push(policy);
    const { lrSchedulerType: type, maxSteps: totalSteps, warmupRatio } = config;
    const loop: LoopContext = {
      config,
      engine,
      model,
      policy,
      tokenizer,
      dataset,
      order: new DataOrder(dataset.size, config.seed),
      grader: { grade: verifyCompletion, hasFormat },
      rewards,
      schedule: { type, totalSteps, warmupSteps: warmupSteps(warmupRatio, totalSteps) },
      ...(signal && { signal }),
    };
    return { loop, evalData, close };
  } catch (error) {
    await close();
    throw error;
  }
}
