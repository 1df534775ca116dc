/** Opening a fork: a new directory for a run that continues from another run's checkpoint. */
import type { Config, ConfigInput } from '../config';
import { AcoerError } from '../errors';
import {
  copyRunStart,
  discardRunDirectory,
  openCheckpoint,
  readRunDirectory,
  type RunDirectory,
} from '../run';
import { closeRewards, resolveTrainConfig } from './inputs';
import { openIn, overStored, type Asked, type Opening } from './opening';
import { sameSteps } from './resume';

/** A run, and the step of one of its checkpoints. */
export interface ForkPoint {
  run: string;
  at: number;
}

/** Settings that a checkpoint's weights and optimiser depend on. */
const FIXED = ['model', 'loraRank', 'loraAlpha', 'targetModules'] as const;

/** @throws BAD_CONFIG for a fork that cannot continue from its checkpoint */
function checkFork(source: RunDirectory, at: number, before: Config, config: Config): void {
  const steps = source.checkpointSteps();
  if (!steps.includes(at)) {
    const known = steps.length === 0 ? 'it has none' : `it has ${steps.join(', ')}`;
    throw new AcoerError('BAD_CONFIG', `${source.path} has no checkpoint of step ${at} (${known}).`);
  }
  if (config.maxSteps <= at) {
    throw new AcoerError('BAD_CONFIG', `maxSteps is ${config.maxSteps}: a fork at step ${at} needs more.`);
  }
  const changed = FIXED.find((name) => JSON.stringify(config[name]) !== JSON.stringify(before[name]));
  if (changed === undefined) return;
  throw new AcoerError(
    'BAD_CONFIG',
    `A fork continues with the weights of its checkpoint, so ${changed} cannot change.`,
  );
}

/** Only reads the run it forks, which may still be running. */
export async function openFork(
  out: string | undefined,
  { run, at }: ForkPoint,
  asked: Asked,
): Promise<Opening> {
  const { settings } = asked;
  if (settings.preset !== undefined) {
    throw new AcoerError('BAD_CONFIG', 'A fork starts from the settings of its run; leave out preset.');
  }
  const source = readRunDirectory(run);
  const own = source.settings() as ConfigInput;
  const before = resolveTrainConfig([own]);
  const config = overStored(before, resolveTrainConfig([own, settings]));
  checkFork(source, at, before, config);
  const checkpoint = openCheckpoint(source, at);
  const opening = await openIn(out, config, asked);
  try {
    copyRunStart(opening.directory, source, at);
  } catch (error) {
    discardRunDirectory(opening.directory);
    await closeRewards(opening.inputs.rewards);
    throw error;
  }
  return { ...opening, checkpoint, fork: { keepOpen: sameSteps(before, config) } };
}
