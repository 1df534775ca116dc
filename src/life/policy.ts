/** The engine of a run, the policy that it trains, and the schedule of its learning rate. */
import type { Config } from '../config';
import { createEngine } from '../engine/engine';
import type { DeviceName, Engine, Model, Policy } from '../engine/types';
import { warmupSteps, type Schedule } from '../grpo/schedule';
import { readAdapterShape } from '../models';
import { streamSeed } from '../base/rng';

export type EngineSettings = Pick<Config, 'device' | 'threads' | 'memoryLimitBytes'>;

export function openEngine({ device, threads, memoryLimitBytes }: EngineSettings): Promise<Engine> {
  return createEngine({
    device: device as DeviceName,
    threads: threads ?? undefined,
    memoryLimitBytes: memoryLimitBytes ?? undefined,
  });
}

/** What the trained policy depends on. */
export type PolicySettings = Pick<
  Config,
  | 'full'
  | 'adapter'
  | 'loraRank'
  | 'loraAlpha'
  | 'useRslora'
  | 'loraDropout'
  | 'targetModules'
  | 'seed'
  | 'adamBeta1'
  | 'adamBeta2'
  | 'adamEpsilon'
>;

/** The policy that is trained. With `adapter`, it adapts what that does; its weights are restored after this. */
export async function createPolicy(model: Model, config: PolicySettings): Promise<Policy> {
  const { adamBeta1: beta1, adamBeta2: beta2, adamEpsilon: eps, adapter } = config;
  if (config.full) return model.createPolicy({ kind: 'full', beta1, beta2, eps });
  const start = adapter === null ? null : await readAdapterShape(adapter, model.info.numLayers);
  return model.createPolicy({
    kind: 'lora',
    rank: config.loraRank,
    alpha: config.loraAlpha,
    rslora: config.useRslora,
    dropout: config.loraDropout,
    targetModules: config.targetModules,
    matrices: start?.matrices,
    seed: streamSeed(config.seed, 'lora-init'),
    ...{ beta1, beta2, eps },
  });
}

export function scheduleOf({
  lrSchedulerType: type,
  maxSteps: totalSteps,
  warmupRatio,
}: Pick<Config, 'lrSchedulerType' | 'maxSteps' | 'warmupRatio'>): Schedule {
  return { type, totalSteps, warmupSteps: warmupSteps(warmupRatio, totalSteps) };
}
