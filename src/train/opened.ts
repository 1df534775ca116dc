/** Engine, model and policy of a run, opened last, and the record of all that is open. */
import { needMethods } from '../border';
import { AcoerError, errorMessage } from '../errors';
import type { Config } from '../config';
import type { Model, Policy } from '../engine/types';
import { createPolicy, openEngine, scheduleOf } from '../life/policy';
import { resolveLoss } from '../losses';
import { adapterWeights } from '../models';
import { assertFits, promptLimit, type Plan } from '../plan';
import { Ranks, type ProcessGroup } from '../ranks';
import { EngineSampler, type Sampler } from '../sampling';
import type { Tokenizer } from '../tokenizer';
import type { LoopContext } from '../grpo/context';
import type { TrainEvent } from '../life/events';
import { baseModelOf, checkBaseModel, checkBaseTokenizer, loadHashed } from '../life/base-model';
import { checkModel, type Identity } from './identity';
import { closeInputs, type Inputs } from './inputs';
import type { Life } from '../life/life';
import type { Opening } from './opening';
import { MemoryLimits } from '../grpo/memory';
import { DataOrder } from '../grpo/order';
import { planSession } from './plan';
import type { TrainOptions } from './train';
import type { Watchdog } from '../life/watchdog';

/** Everything a run has open: the one record that its driver and its files work with. */
export interface Opened extends Opening, OpenedModel, Life<TrainEvent> {
  directory: Opening['directory'];
}

/**
 * Makes a sampler from what it may need: the engine's own sampler, the policy to copy weights from, and the
 * tokenizer. If it computes log-probs in another way than the engine, set `importanceSamplingCorrection`.
 */
export type SamplerMaker = (parts: {
  engineSampler: Sampler;
  policy: Policy;
  tokenizer: Tokenizer;
}) => Sampler;

export interface OpenedModel {
  loop: LoopContext;
  /** What the run trusts. */
  identity: Identity;
  /** null: the engine does not know its memory. */
  plan: Plan | null;
  /** Frees policy, model, engine, rewards and judge; the latter two alone when the engine answers no call. */
  close(engineAnswers: boolean): Promise<void>;
}

/** The adapter that training goes on from, unchanged; null: training starts from the base model. */
export const openReference = async (model: Model, { adapter }: Config): Promise<Policy | null> =>
  adapter === null ? null : model.loadAdapter(adapter);

interface OpenModelOptions extends Pick<TrainOptions, 'engine' | 'signal' | 'ignorePlan' | 'sampler'> {
  /** The processes that train together. Default: this one alone. */
  processes?: ProcessGroup;
  /** Called with one sentence when a memory limit is lowered. */
  warn?: (message: string) => void;
}

/**
 * Loads the model while its files are hashed, and compares them with those of the checkpoint to continue from.
 * Closes `inputs` when that fails.
 */
export async function openModel(
  { config, inputs, checkpoint }: Opening,
  watchdog: Watchdog,
  { engine: given, signal, ignorePlan = false, ...options }: OpenModelOptions,
): Promise<OpenedModel> {
  const { modelDirectory } = inputs;
  const opened: { dispose(): Promise<void> }[] = [{ dispose: () => closeInputs(inputs) }];
  const close = async () => {
    for (const part of opened.splice(0).reverse()) await part.dispose();
  };
  try {
    const engine = given ?? (await openEngine(config));
    if (given === undefined) opened.push(engine);
    const plan = await planSession(config, inputs, engine, signal);
    if (plan !== null && !ignorePlan) assertFits(plan);
    const base = checkpoint === null && config.adapter !== null ? baseModelOf(config.adapter) : null;
    if (base !== null) checkBaseTokenizer(base, modelDirectory, inputs.tokenizer, false);
    const loading = { dtype: config.dtype ?? undefined, signal };
    const { model, fingerprints } = await loadHashed(engine, modelDirectory, loading);
    opened.push(model);
    const identity = { ...inputs.identity, model: fingerprints };
    if (checkpoint !== null) checkModel(modelDirectory, checkpoint, identity.model);
    if (base !== null) checkBaseModel(base, modelDirectory, identity.model);
    const policy = await createPolicy(model, config);
    opened.push(policy);
    const reference = await openReference(model, config);
    if (reference !== null) opened.push(reference);
    if (config.adapter !== null && checkpoint === null) await policy.restore(adapterWeights(config.adapter));
    const loaded = { engine, model, policy, reference, watch: watchdog };
    const loop = loopContext(config, inputs, loaded, options);
    watchdog.loaded(engine, model, loop.sampler);
    return {
      loop,
      identity,
      plan,
      close: (engineAnswers) => (engineAnswers ? close() : closeInputs(inputs)),
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** @throws SAMPLER_FAILED when the user's function throws; BAD_ARGUMENT when it makes no sampler */
function madeSampler(make: SamplerMaker, parts: Parameters<SamplerMaker>[0]): Sampler {
  let sampler: Sampler;
  try {
    sampler = make(parts);
  } catch (cause) {
    throw new AcoerError('SAMPLER_FAILED', `sampler() failed: ${errorMessage(cause)}`, { cause });
  }
  needMethods('what sampler() returns', sampler, ['sample', 'follow']);
  return sampler;
}

function loopContext(
  config: Config,
  { rewards, judge, tokenizer, trainData: dataset, planned, skippedRows }: Inputs,
  loaded: Pick<LoopContext, 'engine' | 'model' | 'policy' | 'reference' | 'watch'>,
  {
    sampler = ({ engineSampler }) => engineSampler,
    processes,
    warn,
  }: Pick<OpenModelOptions, 'sampler' | 'processes' | 'warn'>,
): LoopContext {
  const { model, policy } = loaded;
  const memory = new MemoryLimits(config, { warn });
  const engineSampler = new EngineSampler({ model, policy, tokenizer, slots: () => memory.slots() });
  return {
    ...loaded,
    config,
    tokenizer,
    dataset,
    order: new DataOrder(dataset.size, config.seed),
    promptLimit: promptLimit(config, planned),
    skippedRows,
    grade: judge.training,
    rewards,
    loss: resolveLoss(config.lossType, config.lossParams[config.lossType]),
    schedule: scheduleOf(config),
    memory,
    ranks: new Ranks(processes),
    sampler: madeSampler(sampler, { engineSampler, policy, tokenizer }),
  };
}
