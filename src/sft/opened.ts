/** Engine, model and policy of a supervised run, and the state that it starts from. */
import type { SftEvent } from '../life/events';
import type { Life } from '../life/life';
import { loadTrained, type Loaded } from '../life/loading';
import { otherMaker } from '../life/maker';
import type { Opening } from '../life/method';
import { assertTrainingFits } from '../plan';
import { restorePolicy } from '../run';
import type { SftConfig } from './config';
import type { SftIdentity, SftInputs } from './inputs';
import { planSft } from './plan';
import { checkIdentity, START, storedSft } from './state';
import { SftWork } from './work';

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

/** Restores the run's state into the loaded model. */
export async function startSft(run: OpenedSft): Promise<SftWork> {
  const { config, checkpoint, engine, model, policy, emit, watchdog } = run;
  const { dtype, device, parameterCount: parameters } = model.info;
  const trained = policy.info.parameterCount;
  emit({ type: 'loaded', model: config.model, parameters, trained, device, dtype });
  if (checkpoint === null) return new SftWork(run, START);
  const { sft: state, maker } = storedSft(checkpoint);
  await watchdog.phase('loading', () => restorePolicy(checkpoint, policy));
  const other = otherMaker(maker, engine);
  if (other !== null) emit({ type: 'warning', message: other });
  return new SftWork(run, state);
}
