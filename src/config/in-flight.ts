/** Groups in flight: completions that go on over an update of the weights. */
import { isRecord } from '../base/json';
import { grouped } from '../base/text';
import { MOST_COMPLETIONS } from './limits';

interface Settings {
  groupsInFlight: number | null;
  maxStaleness: number;
  promptsPerStep: number;
  stepsPerGeneration: number;
  numIterations: number;
  numGenerations: number;
  sampler?: unknown;
}

/** Whether the engine samples under this setting. */
const byEngine = (sampler: unknown): boolean =>
  sampler === 'engine' ||
  (isRecord(sampler) && sampler['type'] === undefined && sampler['name'] === 'engine');

const product = ({ promptsPerStep, stepsPerGeneration }: Settings) =>
  stepsPerGeneration === 1
    ? `promptsPerStep = ${promptsPerStep}`
    : `promptsPerStep x stepsPerGeneration = ${promptsPerStep * stepsPerGeneration}`;

/** The least `maxStaleness` under which so many groups can wait for their turn; a batch takes some at a time. */
function leastStaleness({
  groupsInFlight,
  promptsPerStep,
  stepsPerGeneration,
  numIterations,
}: Settings): number {
  const batches = Math.ceil(groupsInFlight! / (promptsPerStep * stepsPerGeneration)) - 1;
  return batches * stepsPerGeneration * numIterations;
}

/** What is wrong with them, by the setting. */
export const IN_FLIGHT_FAULTS = {
  groupsInFlight(config: Settings): string | null {
    const { groupsInFlight: groups, numGenerations, promptsPerStep, stepsPerGeneration, sampler } = config;
    if (groups === null) return null;
    if (groups <= promptsPerStep * stepsPerGeneration)
      return `is ${groups}, but must be above ${product(config)}, which are decoded together anyway; null turns it off`;
    if (groups * numGenerations > MOST_COMPLETIONS)
      return `x numGenerations = ${grouped(groups * numGenerations)} completions would be in flight, more than any machine holds (at most ${grouped(MOST_COMPLETIONS)})`;
    return byEngine(sampler)
      ? null
      : 'needs the engine as the sampler, which goes on with a completion under new weights; set it to null, or leave out sampler';
  },
  maxStaleness(config: Settings): string | null {
    const { groupsInFlight, maxStaleness } = config;
    if (groupsInFlight === null || maxStaleness >= leastStaleness(config)) return null;
    return `is ${maxStaleness}, but groupsInFlight = ${groupsInFlight} groups need at least ${leastStaleness(config)}; raise it, or lower groupsInFlight`;
  },
};
