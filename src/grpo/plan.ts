/** The plan of a run about to start, from its own data and the engine it will run on. */
import type { Config } from '../config';
import type { Engine } from '../engine/types';
import { engineDevice, planRun, readPlannedModel, type Plan } from '../plan';
import { renderPrompt } from '../tokenizer';
import type { Inputs } from './inputs';

/** Prompts looked at for the longest: spread evenly over the data. */
const PROMPTS = 64;

function longestPrompt(config: Config, { tokenizer, trainData }: Inputs): number {
  const { promptTemplate, enableThinking, maxPromptLength } = config;
  const rows = Math.min(PROMPTS, trainData.size);
  const lengths = Array.from({ length: rows }, (_, i) => {
    const row = Math.floor((i * trainData.size) / rows);
    return renderPrompt(tokenizer, trainData.get(row), row, { promptTemplate, enableThinking }).ids.length;
  });
  return Math.min(Math.max(1, ...lengths), maxPromptLength ?? Infinity);
}

/** null for an engine that does not know its memory. */
export async function planSession(config: Config, inputs: Inputs, engine: Engine): Promise<Plan | null> {
  const device = await engineDevice(engine);
  if (device.totalBytes === 0) return null;
  const model = readPlannedModel(inputs.modelDirectory);
  return planRun({ config, model, device, promptTokens: longestPrompt(config, inputs) });
}
