/** Engine, model and policy of a run, opened last. */
import type { Config } from '../config';
import type { Engine, Model, Policy } from '../engine/types';
import { adapterWeights, type Fingerprints } from '../models';
import type { Tokenizer } from '../tokenizer';
import type { StoredCheckpoint } from '../run';
import { baseModelOf, checkBaseModel, checkBaseTokenizer, loadHashed } from './base-model';
import type { CommonEvent } from './events';
import { createPolicy, openEngine, type EngineSettings, type PolicySettings } from './policy';

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
});

export interface LoadParts {
  config: EngineSettings & PolicySettings & Pick<Config, 'dtype'>;
  inputs: { modelDirectory: string; tokenizer: Tokenizer };
  /** null: from the beginning. */
  checkpoint: StoredCheckpoint | null;
  signal?: AbortSignal | undefined;
  /** Stays open when the run ends. Default: one of the run's own. */
  engine?: Engine | undefined;
  /** Frees what was opened before; called on failure, too. */
  closeInputs: () => Promise<void>;
  /** Before anything is loaded. @throws BAD_CONFIG for a run that does not fit */
  plan: (engine: Engine) => Promise<void>;
  /** @throws BAD_INPUT for a model that is not that of the checkpoint */
  checkModel: (fingerprints: Fingerprints) => void;
}

/**
 * Loads the model while its files are hashed, and makes the policy. What `more` loads is part of it.
 * @param more adds what the method needs besides; what it gives to `opened` is freed first
 */
export async function loadTrained<More extends object>(
  { config, inputs, checkpoint, signal, engine: given, closeInputs, plan, checkModel }: LoadParts,
  more: (
    loaded: Omit<Loaded, 'close'> & { fingerprints: Fingerprints },
    opened: { dispose(): Promise<void> }[],
  ) => Promise<More>,
): Promise<Loaded & More> {
  const { modelDirectory, tokenizer } = inputs;
  const opened: { dispose(): Promise<void> }[] = [{ dispose: closeInputs }];
  const close = async () => {
    for (const part of opened.splice(0).reverse()) await part.dispose();
  };
  try {
    const engine = given ?? (await openEngine(config));
    if (given === undefined) opened.push(engine);
    await plan(engine);
    const base = checkpoint === null && config.adapter !== null ? baseModelOf(config.adapter) : null;
    if (base !== null) checkBaseTokenizer(base, modelDirectory, tokenizer, false);
    const loading = { dtype: config.dtype ?? undefined, signal };
    const { model, fingerprints } = await loadHashed(engine, modelDirectory, loading);
    opened.push(model);
    checkModel(fingerprints);
    if (base !== null) checkBaseModel(base, modelDirectory, fingerprints);
    const policy = await createPolicy(model, config);
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
