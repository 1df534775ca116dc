/** Groups in flight: completions that go on over an update of the weights. */
import { groupsPerBatch, updatesPerBatch } from '../base/batches';
import { grouped } from '../base/text';
import { MOST_COMPLETIONS } from './limits';
import { isEngineSampler } from './samplers';

interface Settings {
  groupsInFlight: number | null;
  maxStaleness: number;
  promptsPerStep: number;
  stepsPerGeneration: number;
  numIterations: number;
  numGenerations: number;
  sampler?: unknown;
}

const product = (config: Settings) =>
  `promptsPerStep${config.stepsPerGeneration === 1 ? '' : ' x stepsPerGeneration'} = ${groupsPerBatch(config)}`;

/** The least `maxStaleness` under which so many groups can wait for their turn; a batch takes some at a time. */
const leastStaleness = (config: Settings): number =>
  (Math.ceil(config.groupsInFlight! / groupsPerBatch(config)) - 1) * updatesPerBatch(config);

/** What is wrong with them, by the setting. */
export const IN_FLIGHT_FAULTS = {
  groupsInFlight(config: Settings): string | null {
    const { groupsInFlight: groups, numGenerations } = config;
    if (groups === null) return null;
    if (groups <= groupsPerBatch(config))
      return `is ${groups}, but must be above ${product(config)}, which are decoded together anyway; null turns it off`;
    if (groups * numGenerations > MOST_COMPLETIONS)
      return `x numGenerations = ${grouped(groups * numGenerations)} completions would be in flight, more than any machine holds (at most ${grouped(MOST_COMPLETIONS)})`;
    return isEngineSampler(config)
      ? null
      : 'needs the engine as the sampler, which goes on with a completion under new weights; set it to null, or leave out sampler';
  },
  maxStaleness(config: Settings): string | null {
    const { groupsInFlight, maxStaleness } = config;
    if (groupsInFlight === null || maxStaleness >= leastStaleness(config)) return null;
    return `is ${maxStaleness}, but groupsInFlight = ${groupsInFlight} groups need at least ${leastStaleness(config)}; raise it, or lower groupsInFlight`;
  },
};
