/** Opening a fork: a new directory for a run that continues from another run's checkpoint. */
import type { Config, ConfigInput } from '../config';
import { AcoerError } from '../base/errors';
import {
  copyRunStart,
  discardRunDirectory,
  openCheckpoint,
  readRunDirectory,
  type RunDirectory,
  type StoredCheckpoint,
} from '../run';
import { sameSteps } from '../life/changes';
import { admitRun, openIn } from '../life/opening';
import { checkForked, forkChanges } from './identity';
import { closeInputs, resolveTrainConfig } from './inputs';
import { GRPO, overStored, type TrainAsked, type TrainOpening } from './opening';
import { CHANGEABLE } from './resume';
import { lacksIdentity, storedPart } from './state';

/** A run, and the step of one of its checkpoints. */
export interface ForkPoint {
  run: string;
  at: number;
}

/** Settings that a checkpoint's weights and optimiser depend on. */
const FIXED = ['full', 'adapter', 'loraRank', 'loraAlpha', 'useRslora', 'targetModules'] as const;

/** @throws BAD_CONFIG if there is no such checkpoint */
function checkStep(source: RunDirectory, at: number): void {
  const steps = source.checkpointSteps();
  if (steps.includes(at)) return;
  const known = steps.length === 0 ? 'it has none' : `it has ${steps.join(', ')}`;
  throw new AcoerError('BAD_CONFIG', `${source.path} has no checkpoint of step ${at} (${known}).`);
}

/** @throws BAD_CONFIG for a fork that cannot continue from its checkpoint */
function checkSettings(checkpoint: StoredCheckpoint, before: Config, config: Config): void {
  const { step: at } = checkpoint;
  if (config.maxSteps <= at) {
    throw new AcoerError('BAD_CONFIG', `maxSteps is ${config.maxSteps}: a fork at step ${at} needs more.`);
  }
  // A model whose files are compared may have moved.
  const fixed = lacksIdentity(checkpoint) ? (['model', ...FIXED] as const) : FIXED;
  const changed = fixed.find((name) => JSON.stringify(config[name]) !== JSON.stringify(before[name]));
  if (changed === undefined) return;
  throw new AcoerError(
    'BAD_CONFIG',
    `A fork continues with the weights of its checkpoint, so ${changed} cannot change.`,
  );
}

/**
 * Only reads the run it forks, which may still be running.
 * @param warn gets a sentence about lines of metrics that the run has lost
 */
export async function openFork(
  out: string | undefined,
  { run, at }: ForkPoint,
  asked: TrainAsked,
  warn: (message: string) => void,
): Promise<TrainOpening> {
  const { settings, parts } = asked;
  if (settings.preset !== undefined) {
    throw new AcoerError('BAD_CONFIG', 'A fork starts from the settings of its run; leave out preset.');
  }
  const source = readRunDirectory(run);
  const own = source.trainSettings() as ConfigInput;
  const before = resolveTrainConfig([own], undefined, parts.rewards);
  const config = overStored(before, resolveTrainConfig([own, settings], undefined, parts.rewards));
  checkStep(source, at);
  const checkpoint = await openCheckpoint(source, at);
  checkSettings(checkpoint, before, config);
  await admitRun(GRPO, run, config, asked);
  const opening = await openIn(GRPO, out, config, asked);
  const { directory, inputs } = opening;
  try {
    checkForked(checkpoint, inputs);
    const { accepted = [], pending } = storedPart(checkpoint);
    // A pending line is not in the file yet.
    await copyRunStart(directory, source, pending === null ? at : at - 1, warn);
    const other = forkChanges(checkpoint, inputs, before, config);
    const keepOpen = sameSteps(CHANGEABLE, before, config) && !other.rewards;
    return { ...opening, checkpoint, accepted, fork: { keepOpen, otherEvalData: other.evalData } };
  } catch (error) {
    discardRunDirectory(directory);
    await closeInputs(inputs);
    throw error;
  }
}
