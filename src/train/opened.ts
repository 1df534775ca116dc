/** Engine, model and policy of a run, opened last, and the record of all that is open. */
import type { Config } from '../config';
import type { Model, Policy } from '../engine/types';
import { loadTrained, type Loaded } from '../life/loading';
import { scheduleOf } from '../life/policy';
import { resolveLoss } from '../losses';
import { assertFits, promptLimit, type Plan } from '../plan';
import { Ranks, type ProcessGroup } from '../ranks';
import { EngineSampler } from '../sampling';
import type { LoopContext } from '../grpo/context';
import type { TrainEvent } from '../life/events';
import { checkModel, type Identity } from './identity';
import { closeInputs, type Inputs } from './inputs';
import type { Life } from '../life/life';
import type { TrainOpening } from './opening';
import { MemoryLimits } from '../grpo/memory';
import { DataOrder } from '../grpo/order';
import { planSession } from './plan';
import type { TrainOptions } from './options';
import type { Watchdog } from '../life/watchdog';

/** Everything a run has open: the one record that its driver and its files work with. */
export interface Opened extends TrainOpening, OpenedModel, Life<TrainEvent> {
  directory: TrainOpening['directory'];
}

export interface OpenedModel extends Loaded {
  loop: LoopContext;
  /** What the run trusts. */
  identity: Identity;
  /** null: the engine does not know its memory. */
  plan: Plan | null;
}

/** The adapter that training continues from, unchanged; null: training starts from the base model. */
export const openReference = async (model: Model, { adapter }: Config): Promise<Policy | null> =>
  adapter === null ? null : model.loadAdapter(adapter);

interface OpenModelOptions extends Pick<TrainOptions, 'engine' | 'signal' | 'ignorePlan'> {
  /** The processes that train together. Default: this one alone. */
  processes?: ProcessGroup;
  /** Called with one sentence when a memory limit is lowered. */
  warn?: (message: string) => void;
}

/** Loads the model, and makes from it all that the loop works with. Closes `inputs` when that fails. */
export async function openModel(
  { config, inputs, checkpoint }: TrainOpening,
  watchdog: Watchdog,
  { engine, signal, ignorePlan = false, ...options }: OpenModelOptions,
): Promise<OpenedModel> {
  let plan: Plan | null = null;
  return loadTrained(
    {
      ...{ config, inputs, checkpoint, signal, engine },
      closeInputs: () => closeInputs(inputs),
      plan: async (on) => {
        plan = await planSession(config, inputs, on, signal);
        if (plan !== null && !ignorePlan) assertFits(plan);
      },
      checkModel: (model) => {
        if (checkpoint !== null) checkModel(inputs.modelDirectory, checkpoint, model);
      },
    },
    async ({ fingerprints, ...loaded }, opened) => {
      const reference = await openReference(loaded.model, config);
      if (reference !== null) opened.push(reference);
      const loop = loopContext(config, inputs, { ...loaded, reference, watch: watchdog }, options);
      watchdog.loaded(loaded.engine, loaded.model, loop.sampler);
      return { loop, plan, identity: { ...inputs.identity, model: fingerprints } };
    },
  );
}

function loopContext(
  config: Config,
  { rewards, judge, makeSampler, tokenizer, trainData: dataset, planned, skippedRows }: Inputs,
  loaded: Pick<LoopContext, 'engine' | 'model' | 'policy' | 'reference' | 'watch'>,
  { processes, warn }: Pick<OpenModelOptions, 'processes' | 'warn'>,
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
    sampler: makeSampler({ engineSampler, policy, tokenizer }),
  };
}
