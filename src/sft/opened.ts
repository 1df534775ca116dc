/** Engine, model and policy of a supervised run, its plan, and the record of all that is open. */
import type { SftEvent } from '../life/events';
import type { Life } from '../life/life';
import { loadTrained, type Loaded } from '../life/policy';
import type { Opening } from '../life/method';
import { assertTrainingFits, planTraining } from '../plan';
import type { SftConfig } from './config';
import type { SftInputs } from './inputs';
import { checkIdentity, type SftIdentity } from './state';
import { sampleTokens, type Tokens } from '../base/packing';

const lengthsOf = (examples: readonly Tokens[]) =>
  examples.map((example) => ({
    tokens: sampleTokens(example),
    completionTokens: example.completionIds.length,
  }));

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
      plan: async (known) => {
        const lengths = { training: lengthsOf(inputs.examples), scoring: lengthsOf(inputs.heldOut) };
        const plan = planTraining({ config, lengths, ...known });
        emit({ type: 'training-plan', plan });
        if (!ignorePlan) assertTrainingFits(plan);
      },
      checkModel: (before, model) => checkIdentity(before, { model }),
    },
    ({ engine, model, fingerprints }) => {
      watchdog.loaded(engine, model);
      return Promise.resolve({ identity: { ...inputs.identity, model: fingerprints } });
    },
  );
}
