/** Engine, model and policy of a supervised run, its plan, and the record of all that is open. */
import type { SftEvent } from '../life/events';
import type { Life } from '../life/life';
import { adaptedBy, loadTrained, type Loaded } from '../life/policy';
import type { Opening } from '../life/method';
import { assertTrainingFits, engineDevice, planTraining, type TrainingPlan } from '../plan';
import type { SftConfig } from './config';
import type { SftInputs } from './inputs';
import { checkIdentity, type SftIdentity } from './state';
import type { Engine } from '../engine/types';
import { sampleTokens, type Tokens } from '../base/packing';

const lengthsOf = (examples: readonly Tokens[]) =>
  examples.map((example) => ({
    tokens: sampleTokens(example),
    completionTokens: example.completionIds.length,
  }));

/** null for an engine that does not know its memory. */
async function planSft(
  config: SftConfig,
  { planned: model, examples, heldOut }: SftInputs,
  engine: Engine,
): Promise<TrainingPlan | null> {
  const device = await engineDevice(engine);
  if (device.totalBytes === 0) return null;
  const adapted = await adaptedBy(config, model.shape.numLayers);
  const lengths = { training: lengthsOf(examples), scoring: lengthsOf(heldOut) };
  return planTraining({ config, model, device, lengths, adapted });
}

export type SftOpening = Opening<SftConfig, SftInputs>;

export interface SftModel extends Loaded {
  identity: SftIdentity;
}

/** Everything that a supervised run has open. */
export interface OpenedSft extends SftOpening, SftModel, Life<SftEvent> {
  directory: SftOpening['directory'];
}

export function openSftModel(
  { config, inputs, checkpoint }: SftOpening,
  { watchdog, signal, emit }: Life<SftEvent>,
  ignorePlan: boolean,
): Promise<SftModel> {
  return loadTrained(
    {
      ...{ config, inputs, checkpoint, signal },
      closeInputs: () => Promise.resolve(),
      plan: async (engine) => {
        const plan = await planSft(config, inputs, engine);
        if (plan === null) return;
        emit({ type: 'training-plan', plan });
        if (!ignorePlan) assertTrainingFits(plan);
      },
      checkModel: (model) => {
        if (checkpoint !== null) checkIdentity(checkpoint, { model });
      },
    },
    ({ engine, model, fingerprints }) => {
      watchdog.loaded(engine, model);
      return Promise.resolve({ identity: { ...inputs.identity, model: fingerprints } });
    },
  );
}
