/** The plan of a supervised run about to start, from its own examples and the engine it will run on. */
import type { Engine } from '../engine/types';
import { readAdapterShape } from '../models';
import { sampleTokens, type Tokens } from '../base/packing';
import { engineDevice, planTraining, type TrainingPlan } from '../plan';
import type { SftConfig } from './config';
import type { SftInputs } from './inputs';

const lengthsOf = (examples: readonly Tokens[]) =>
  examples.map((example) => ({
    tokens: sampleTokens(example),
    completionTokens: example.completionIds.length,
  }));

/** null for an engine that does not know its memory. */
export async function planSft(
  config: SftConfig,
  { planned: model, examples, heldOut }: SftInputs,
  engine: Engine,
): Promise<TrainingPlan | null> {
  const device = await engineDevice(engine);
  if (device.totalBytes === 0) return null;
  const adapted =
    config.adapter === null
      ? undefined
      : (await readAdapterShape(config.adapter, model.shape.numLayers)).matrices;
  const lengths = { training: lengthsOf(examples), scoring: lengthsOf(heldOut) };
  return planTraining({ config, model, device, lengths, adapted });
}
