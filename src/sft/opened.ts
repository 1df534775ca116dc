/** Engine, model and policy of a supervised run, and the record of all that is open. */
import type { SftEvent } from '../life/events';
import type { Life } from '../life/life';
import { loadTrained, type Loaded } from '../life/loading';
import type { Opening } from '../life/method';
import { assertTrainingFits } from '../plan';
import type { SftConfig } from './config';
import type { SftInputs } from './inputs';
import { planSft } from './plan';
import { checkIdentity, type SftIdentity } from './state';

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
