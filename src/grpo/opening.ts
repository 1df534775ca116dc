/** Opening a run's directory, new or to go on with: what is settled before a model is loaded. */
import { mergeLayers, type Config, type ConfigInput } from '../config';
import { AcoerError } from '../errors';
import {
  createRunDirectory,
  findCheckpoint,
  newRunPath,
  openRunDirectory,
  readRunDirectory,
  type RunDirectory,
  type StoredCheckpoint,
} from '../run';
import type { RunSummary } from './events';
import {
  closeRewards,
  openInputs,
  resolveTrainConfig,
  withAbsolutePaths,
  type Inputs,
  type SessionParts,
} from './inputs';
import { allowedChanges } from './resume';
import { storedPart } from './state';

export interface Opening {
  directory: RunDirectory;
  config: Config;
  inputs: Inputs;
  resumed: boolean;
  checkpoint: StoredCheckpoint | null;
}

export type Given = ConfigInput & { preset?: string };
export type Warn = (message: string) => void;

export async function openNew(out: string | undefined, given: Given, parts: SessionParts): Promise<Opening> {
  const config = withAbsolutePaths(resolveTrainConfig([given]));
  const inputs = await openInputs(config, parts);
  try {
    const name = config.name ?? inputs.rewards.map(({ reward }) => reward.name).join('+');
    const directory = createRunDirectory(out ?? newRunPath('runs', name), config);
    return { directory, config, inputs, resumed: false, checkpoint: null };
  } catch (error) {
    await closeRewards(inputs.rewards);
    throw error;
  }
}

/** The stored configuration with the given settings laid over it, and as it is stored. */
function resumedConfig(run: RunDirectory, given: Given): { stored: Config; wanted: Config } {
  const own = run.readJson(run.config()) as ConfigInput;
  const { preset, ...values } = given;
  const stored = resolveTrainConfig([own]);
  // A preset's values are laid over the stored ones like any others.
  const over = mergeLayers([values], preset);
  delete over.preset;
  return { stored, wanted: withAbsolutePaths(resolveTrainConfig([own, over])) };
}

/** Locks the run and finds what to go on from. @throws BAD_CONFIG for a change that is not allowed */
export async function openResumed(
  path: string,
  given: Given,
  parts: SessionParts,
  warn: Warn,
): Promise<Opening> {
  const { stored, wanted: config } = resumedConfig(readRunDirectory(path), given);
  const directory = openRunDirectory(path);
  try {
    const checkpoint = findCheckpoint(directory, warn);
    const before = checkpoint === null ? stored : resolveTrainConfig([storedPart(checkpoint).config]);
    for (const change of allowedChanges(before, config, checkpoint?.step ?? 0)) warn(change);
    const inputs = await openInputs(config, parts);
    if (checkpoint !== null) await checkData(checkpoint, inputs);
    return { directory, config, inputs, resumed: true, checkpoint };
  } catch (error) {
    directory.lock?.release();
    throw error;
  }
}

/** The order of problems is a function of their number. */
async function checkData(checkpoint: StoredCheckpoint, { trainData, rewards }: Inputs): Promise<void> {
  const { datasetSize } = storedPart(checkpoint);
  if (datasetSize === trainData.size) return;
  await closeRewards(rewards);
  throw new AcoerError(
    'BAD_INPUT',
    `The training data has ${trainData.size} problems now and had ${datasetSize} when the run began; bring back the data of then.`,
  );
}

/** The configuration and summary of a run with nothing left to do. */
export function finishedRun(path: string, given: Given): { config: Config; summary: RunSummary } | null {
  const directory = readRunDirectory(path);
  const { stored, wanted } = resumedConfig(directory, given);
  if (!directory.finished(stored.maxSteps) || wanted.maxSteps > stored.maxSteps) return null;
  allowedChanges(stored, wanted, stored.maxSteps);
  // Killed behind its summary: what that left goes.
  if (directory.isLocked()) openRunDirectory(path).lock?.release();
  return { config: stored, summary: directory.readJson(directory.summary()) as RunSummary };
}
