/** Engine, model and policy of a run, opened last, its plan, and the record of all that is open. */
import { existsSync } from 'node:fs';
import { isEngineSampler, offPolicySources, servedBy, type Config } from '../config';
import type { Engine, Model, Policy } from '../engine/types';
import { loadTrained, scheduleOf, type Loaded } from '../life/policy';
import { resolveLoss } from '../losses';
import { assertFits, promptLimit, type Plan, planRunPaced, type PlannedModel } from '../plan';
import { Ranks, type ProcessGroup } from '../ranks';
import { disposeSampler, EngineSampler } from '../sampling';
import type { LoopContext } from '../grpo/context';
import type { TrainEvent } from '../life/events';
import { checkModel } from './identity';
import type { Identity } from './state';
import { closeInputs, type Inputs } from './inputs';
import type { Life } from '../life/life';
import type { TrainOpening } from './opening';
import { ExpectedLengths } from '../grpo/expected-lengths';
import { KernelDrift } from '../grpo/kernel-drift';
import { MemoryLimits } from '../grpo/memory';
import { DataOrder } from '../grpo/order';
import type { TrainOptions } from './options';
import { PROBES, type ServedOptions, servedSampler } from './served';
import { somePrompts } from './some-prompts';
import type { Watchdog } from '../life/watchdog';
import { isEmbeddedTask, loadDataset, loadRunData, trainSpec } from '../data';
import { resolveModel } from '../models';
import { loadTokenizer } from '../tokenizer';
import { maximum } from '../base/statistics';

/** How many prompts, spread evenly over the data, are measured to find the longest. */
const PROMPTS = 64;

/** Length in tokens of the longest of some prompts of the data. Yields to the event loop. */
async function longestPrompt(
  config: Config,
  inputs: Pick<Inputs, 'tokenizer' | 'trainData' | 'planned'>,
  signal?: AbortSignal,
): Promise<number> {
  const prompts = await somePrompts(config, inputs, PROMPTS, { signal });
  const longest = maximum(prompts.map(({ length }) => length));
  return Math.min(Math.max(1, longest), promptLimit(config, inputs.planned));
}

/** The longest prompt in tokens; undefined if model or data are not on this machine: nothing is fetched. */
export async function longestLocalPrompt(config: Config, planned: PlannedModel): Promise<number | undefined> {
  const here = (name: string) => isEmbeddedTask(name) || existsSync(name);
  if (config.model !== 'tiny' && !existsSync(config.model)) return undefined;
  if (!here(config.dataset)) return undefined;
  const tokenizer = await loadTokenizer((await resolveModel(config.model)).directory);
  const trainData =
    config.evalDataset === null || here(config.evalDataset)
      ? (await loadRunData(config)).trainData
      : await loadDataset(trainSpec(config));
  return longestPrompt(config, { tokenizer, trainData, planned });
}

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
  processes?: ProcessGroup | undefined;
  openEngine?: (() => Promise<Engine>) | undefined;
  /** Called with one sentence when a memory limit is lowered, or a sampler fails to close. */
  warn?: (message: string) => void;
  /** For a run whose completions servers sample. */
  served?: ServedOptions;
}

/** Loads the model, and makes from it all that the loop works with. Closes `inputs` when that fails. */
export async function openModel(
  { config, inputs, checkpoint }: Pick<TrainOpening, 'config' | 'inputs' | 'checkpoint'>,
  watchdog: Watchdog,
  { engine, openEngine, signal, ignorePlan = false, ...options }: OpenModelOptions,
): Promise<OpenedModel> {
  let plan: Plan | null = null;
  const { rank: index = 0, size: ranks = 1 } = options.processes ?? {};
  const served = servedBy(config);
  return loadTrained(
    {
      shard: ranks > 1 ? { index, count: ranks } : undefined,
      ...{ config, inputs, checkpoint, signal, engine, openEngine },
      closeInputs: () => closeInputs(inputs),
      plan: async (known) => {
        const promptTokens = await longestPrompt(config, inputs, signal);
        plan = await planRunPaced({ config, promptTokens, ranks, ...known }, signal);
        if (!ignorePlan) assertFits(plan);
      },
      checkModel: (before, model) => checkModel(inputs.modelDirectory, before, model),
    },
    async ({ fingerprints, ...loaded }, opened) => {
      const reference = await openReference(loaded.model, config);
      if (reference !== null) opened.push(reference);
      const prompts =
        served === null
          ? []
          : await somePrompts(config, inputs, PROBES, { skipped: inputs.skippedRows, signal });
      const parts = { ...loaded, reference, watch: watchdog };
      const loop = loopContext(config, inputs, parts, { ...options, prompts });
      const warn = options.warn ?? (() => undefined);
      opened.push({ dispose: () => disposeSampler(loop.sampler, warn) });
      watchdog.loaded(loaded.engine, loaded.model, loop.sampler);
      return { loop, plan, identity: { ...inputs.identity, model: fingerprints } };
    },
  );
}

function loopContext(
  config: Config,
  { rewards, judge, makeSampler, tokenizer, trainData: dataset, planned, skippedRows }: Inputs,
  loaded: Pick<LoopContext, 'engine' | 'model' | 'policy' | 'reference' | 'watch'>,
  {
    processes,
    warn,
    served,
    prompts,
  }: Pick<OpenModelOptions, 'processes' | 'warn' | 'served'> & {
    /** That servers are proved with. */
    prompts: readonly Int32Array[];
  },
): LoopContext {
  const { model, policy } = loaded;
  const memory = new MemoryLimits(config, { warn });
  // Completions of other weights, or over a rounded cache, say nothing about the kernels.
  const isOnPolicy = isEngineSampler(config) && offPolicySources(config).length === 0;
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
    ...(isOnPolicy && { drift: new KernelDrift(model, warn ?? (() => undefined)) }),
    ranks: new Ranks(processes),
    lengths: new ExpectedLengths(),
    sampler: makeSampler({
      ...{ engineSampler, policy, tokenizer },
      served: (setting) => servedSampler(setting, config, { model, policy }, prompts, served!),
    }),
  };
}
