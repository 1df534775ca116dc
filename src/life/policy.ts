/** Engine, model and policy of a run, opened last, and the schedule of its learning rate. */
import type { Config } from '../config';
import { createEngine } from '../engine/engine';
import type { DeviceName, Engine, Model, Policy, Shard } from '../engine/types';
import { warmupSteps, type Schedule } from '../grpo/schedule';
import { engineDevice, type PlanInput, type PlannedModel } from '../plan';
import { readAdapterShape, adapterWeights, type Fingerprints } from '../models';
import { streamSeed } from '../base/rng';
import type { Tokenizer } from '../tokenizer';
import type { StoredCheckpoint } from '../run';
import { baseModelOf, checkBaseModel, checkBaseTokenizer, loadHashed } from './base-model';
import type { CommonEvent } from './events';
import type { AdapterShape } from './names';

export type EngineSettings = Pick<Config, 'device' | 'threads' | 'memoryLimitBytes'>;

export function openEngine({ device, threads, memoryLimitBytes }: EngineSettings): Promise<Engine> {
  return createEngine({
    device: device as DeviceName,
    threads: threads ?? undefined,
    memoryLimitBytes: memoryLimitBytes ?? undefined,
  });
}

/** The linears that the adapter adapts with which training begins; undefined: it begins without one. */
export const adaptedBy = async ({ adapter }: Pick<Config, 'adapter'>, numLayers: number) =>
  adapter === null ? undefined : (await readAdapterShape(adapter, numLayers)).matrices;

/** What the trained policy depends on. */
export type PolicySettings = AdapterShape &
  Pick<Config, 'full' | 'loraDropout' | 'seed' | 'adamBeta1' | 'adamBeta2' | 'adamEpsilon'>;

/**
 * The policy that is trained. With `adapter`, it adapts what that does; its weights are restored after this.
 * @param shard of a run of several processes that trains all weights
 */
export async function createPolicy(model: Model, config: PolicySettings, shard?: Shard): Promise<Policy> {
  const { adamBeta1: beta1, adamBeta2: beta2, adamEpsilon: eps } = config;
  if (config.full) return model.createPolicy({ kind: 'full', beta1, beta2, eps, shard });
  return model.createPolicy({
    kind: 'lora',
    rank: config.loraRank,
    alpha: config.loraAlpha,
    rslora: config.useRslora,
    dropout: config.loraDropout,
    targetModules: config.targetModules,
    matrices: await adaptedBy(config, model.info.numLayers),
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

/** What a run has loaded. */
export interface Loaded {
  engine: Engine;
  model: Model;
  policy: Policy;
  /** Frees it all; only what is not the engine's when that answers no call. */
  close(engineAnswers: boolean): Promise<void>;
}

/** Tells what was loaded. @param name of the model in the settings */
export const loadedEvent = (name: string, { model, policy }: Loaded): CommonEvent & { type: 'loaded' } => ({
  type: 'loaded',
  model: name,
  parameters: model.info.parameterCount,
  trained: policy.info.parameterCount,
  device: model.info.device,
  dtype: model.info.dtype,
  quantization: model.info.quantization,
});

/** What a run of any kind reads of its model before it is loaded. */
export interface ModelInputs {
  modelDirectory: string;
  /** Read from the model's config.json. */
  planned: PlannedModel;
  tokenizer: Tokenizer;
}

export interface LoadParts {
  config: EngineSettings & PolicySettings & Pick<Config, 'dtype' | 'quantization'>;
  inputs: ModelInputs;
  /** null: from the beginning. */
  checkpoint: StoredCheckpoint | null;
  /** Which of the moments this process keeps. Default: all. */
  shard?: Shard | undefined;
  signal?: AbortSignal | undefined;
  /** Stays open when the run ends. Default: one of the run's own. */
  engine?: Engine | undefined;
  /** Opens one of the run's own. Default: as the settings say. */
  openEngine?: (() => Promise<Engine>) | undefined;
  /** Frees what was opened before; called on failure, too. */
  closeInputs: () => Promise<void>;
  /**
   * Before anything is loaded, unless the engine does not know its memory.
   * @throws BAD_CONFIG for a run that does not fit
   */
  plan: (known: Pick<PlanInput, 'device' | 'model' | 'adapted'>) => Promise<void>;
  /** @throws BAD_INPUT for a model that is not that of the checkpoint */
  checkModel: (checkpoint: StoredCheckpoint, fingerprints: Fingerprints) => void;
}

/**
 * Loads the model while its files are hashed, and makes the policy. What `more` loads is part of it.
 * @param more adds what the method needs besides; what it gives to `opened` is freed first
 */
export async function loadTrained<More extends object>(
  { config, inputs, checkpoint, signal, engine: given, closeInputs, plan, checkModel, ...parts }: LoadParts,
  more: (
    loaded: Omit<Loaded, 'close'> & { fingerprints: Fingerprints },
    opened: { dispose(): Promise<void> }[],
  ) => Promise<More>,
): Promise<Loaded & More> {
  const { modelDirectory, tokenizer, planned } = inputs;
  const opened: { dispose(): Promise<void> }[] = [{ dispose: closeInputs }];
  const close = async () => {
    for (const part of opened.splice(0).reverse()) await part.dispose();
  };
  try {
    const engine = given ?? (await (parts.openEngine ?? (() => openEngine(config)))());
    if (given === undefined) opened.push(engine);
    const device = await engineDevice(engine);
    if (device.totalBytes > 0) {
      const adapted = await adaptedBy(config, planned.shape.numLayers);
      await plan({ device, model: planned, adapted });
    }
    const base = checkpoint === null && config.adapter !== null ? baseModelOf(config.adapter) : null;
    if (base !== null) checkBaseTokenizer(base, modelDirectory, tokenizer, false);
    const loading = { dtype: config.dtype ?? undefined, quantization: config.quantization, signal };
    const { model, fingerprints } = await loadHashed(engine, modelDirectory, loading);
    opened.push(model);
    if (checkpoint !== null) checkModel(checkpoint, fingerprints);
    if (base !== null) checkBaseModel(base, modelDirectory, fingerprints);
    const policy = await createPolicy(model, config, parts.shard);
    opened.push(policy);
    if (config.adapter !== null && checkpoint === null) await policy.restore(adapterWeights(config.adapter));
    const own = await more({ engine, model, policy, fingerprints }, opened);
    return {
      ...{ engine, model, policy, ...own },
      close: (engineAnswers) => (engineAnswers ? close() : closeInputs()),
    };
  } catch (error) {
    await close();
    throw error;
  }
}
