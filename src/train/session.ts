/** Engine, model and policy of a run: what is heavy, opened last. */
import type { Config } from '../config';
import type { Dataset } from '../data';
import { createEngine } from '../engine/engine';
import type { DeviceName, Engine, Model, Policy } from '../engine/types';
import { resolveLoss } from '../losses';
import { assertFits, promptLimit, type Plan } from '../plan';
import { streamSeed } from '../rng';
import { EngineSampler } from '../sampling';
import { judgeCompletion } from '../eval';
import type { LoopContext } from '../grpo/context';
import { closeRewards, type Inputs } from './inputs';
import { MemoryLimits } from '../grpo/memory';
import { DataOrder } from '../grpo/order';
import { planSession } from './plan';
import { warmupSteps, type Schedule } from '../grpo/schedule';
import type { Watchdog } from './watchdog';

export interface Session {
  loop: LoopContext;
  evalData: Dataset | null;
  /** Of the base model. */
  modelDirectory: string;
  /** What was predicted; null for an engine that does not know its memory. */
  plan: Plan | null;
  close(): Promise<void>;
  /** Leaves an engine that answers no call as it is and ends the rest. */
  abandon(): Promise<void>;
}

export interface SessionOptions {
  engine?: Engine;
  signal?: AbortSignal;
  ignorePlan?: boolean;
  watchdog: Watchdog;
}

export function openEngine({ device, threads, memoryLimitBytes }: Config): Promise<Engine> {
  return createEngine({
    device: device as DeviceName,
    threads: threads ?? undefined,
    memoryLimitBytes: memoryLimitBytes ?? undefined,
  });
}

export function createPolicy(model: Model, config: Config): Promise<Policy> {
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

export function scheduleOf({ lrSchedulerType: type, maxSteps: totalSteps, warmupRatio }: Config): Schedule {
  return { type, totalSteps, warmupSteps: warmupSteps(warmupRatio, totalSteps) };
}

/** Takes over the rewards of `inputs`: they are closed with the session, also when it cannot be opened. */
export async function openSession(
  config: Config,
  inputs: Inputs,
  { engine: given, signal, ignorePlan = false, watchdog }: SessionOptions,
): Promise<Session> {
  const { rewards, modelDirectory, tokenizer, trainData: dataset, evalData, planned, skippedRows } = inputs;
  const opened: { dispose(): Promise<void> }[] = [{ dispose: () => closeRewards(rewards) }];
  const close = async () => {
    for (const part of opened.splice(0).reverse()) await part.dispose();
  };
  try {
    const engine = given ?? (await openEngine(config));
    if (given === undefined) opened.push(engine);
    const plan = await planSession(config, inputs, engine);
    if (plan !== null && !ignorePlan) assertFits(plan);
    const model = await engine.loadModel(modelDirectory, { dtype: config.dtype ?? undefined, signal });
    opened.push(model);
    watchdog.loaded(engine, model);
    const policy = await createPolicy(model, config);
    opened.push(policy);
    const memory = new MemoryLimits(config);
    const loop: LoopContext = {
      config,
      engine,
      model,
      policy,
      tokenizer,
      dataset,
      order: new DataOrder(dataset.size, config.seed),
      promptLimit: promptLimit(config, planned),
      skippedRows,
      judge: (text, gold, thinking) => judgeCompletion(text, gold, thinking, config.answerFrom),
      watch: watchdog,
      rewards,
      loss: resolveLoss(config.lossType, config.lossParams[config.lossType]),
      schedule: scheduleOf(config),
      memory,
      sampler: new EngineSampler({ model, policy, tokenizer, slots: () => memory.slots() }),
      signal,
    };
    return { loop, evalData, modelDirectory, plan, close, abandon: () => closeRewards(rewards) };
  } catch (error) {
    await close();
    throw error;
  }
}
