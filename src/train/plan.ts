/** The plan of a run about to start, from its own data and the engine it will run on. */
import { existsSync } from 'node:fs';
import type { Config } from '../config';
import { loadDataset, loadRunData, trainSpec } from '../data';
import type { Engine } from '../engine/types';
import { engineDevice, planRunPaced, promptLimit, type Plan, type PlannedModel } from '../plan';
import { readAdapterShape, resolveModel } from '../models';
import { loadTokenizer, renderPrompts } from '../tokenizer';
import type { Inputs } from './inputs';
import { maximum } from '../base/statistics';

/** How many prompts, spread evenly over the data, are measured to find the longest. */
const PROMPTS = 64;

/** Length in tokens of the longest of some prompts of the data. Yields to the event loop. */
async function longestPrompt(
  config: Config,
  { tokenizer, trainData, planned }: Pick<Inputs, 'tokenizer' | 'trainData' | 'planned'>,
  signal?: AbortSignal,
): Promise<number> {
  const rows = Math.min(PROMPTS, trainData.size);
  const problems = Array.from({ length: rows }, (_, i) =>
    trainData.get(Math.floor((i * trainData.size) / rows)),
  );
  const { promptTemplate, enableThinking } = config;
  const prompts = await renderPrompts(tokenizer, problems, { promptTemplate, enableThinking, signal });
  const longest = maximum(prompts.map(({ ids }) => ids.length));
  return Math.min(Math.max(1, longest), promptLimit(config, planned));
}

/** The longest prompt in tokens; undefined if model or data are not on this machine: nothing is fetched. */
export async function longestLocalPrompt(config: Config, planned: PlannedModel): Promise<number | undefined> {
  const here = (name: string) => name === 'tiny' || existsSync(name);
  if (!here(config.model) || !here(config.dataset)) return undefined;
  const tokenizer = await loadTokenizer((await resolveModel(config.model)).directory);
  const trainData =
    config.evalDataset === null || here(config.evalDataset)
      ? (await loadRunData(config)).trainData
      : await loadDataset(trainSpec(config));
  return longestPrompt(config, { tokenizer, trainData, planned });
}

/** null for an engine that does not know its memory. */
export async function planSession(
  config: Config,
  inputs: Inputs,
  engine: Engine,
  signal?: AbortSignal,
): Promise<Plan | null> {
  const device = await engineDevice(engine);
  if (device.totalBytes === 0) return null;
  const promptTokens = await longestPrompt(config, inputs, signal);
  const { planned: model } = inputs;
  const adapted =
    config.adapter === null
      ? undefined
      : (await readAdapterShape(config.adapter, model.shape.numLayers)).matrices;
  return planRunPaced({ config, model, device, promptTokens, adapted }, signal);
}
