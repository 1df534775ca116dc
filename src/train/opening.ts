/** Opening a run's directory, new or to go on with: what is settled before a model is loaded. */
import { mergeLayers, type Config, type ConfigInput } from '../config';
import { AcoerError } from '../errors';
import type { ModelFetchOptions } from '../models';
import {
  completeRollbacks,
  createRunDirectory,
  findCheckpoint,
  newRunPath,
  openRunDirectory,
  readRunDirectory,
  refuseBrokenFork,
  type RunDirectory,
  type StoredCheckpoint,
} from '../run';
import type { RunSummary } from './events';
import {
  closeRewards,
  openInputs,
  resolveTrainConfig,
  withAbsolutePaths,
  withLastingNames,
  withPinnedData,
  type Inputs,
  type SessionParts,
} from './inputs';
import { allowedChanges, forkCommand } from './resume';
import { storedPart } from './state';

export interface Opening {
  directory: RunDirectory;
  config: Config;
  inputs: Inputs;
  resumed: boolean;
  checkpoint: StoredCheckpoint | null;
  /** `checkpoint` is another run's; whether updates left of its batch are still made. */
  fork?: { keepOpen: boolean };
}

export type Given = ConfigInput & { preset?: string };
export type Warn = (message: string) => void;

export async function openNew(
  out: string | undefined,
  given: Given,
  parts: SessionParts,
  fetching: ModelFetchOptions,
): Promise<Opening> {
  const config = await withLastingNames(resolveTrainConfig([given]), fetching);
  return openIn(out, config, parts, fetching);
}

/** A new directory for a run under `asked`. */
export async function openIn(
  out: string | undefined,
  asked: Config,
  parts: SessionParts,
  fetching: ModelFetchOptions,
): Promise<Opening> {
  const inputs = await openInputs(asked, parts, fetching);
  try {
    const config = withPinnedData(asked, inputs, parts);
    const name = config.name ?? inputs.rewards.map(({ reward }) => reward.name).join('+');
    const directory = createRunDirectory(out ?? newRunPath('runs', name), config);
    return { directory, config, inputs, resumed: false, checkpoint: null };
  } catch (error) {
    await closeRewards(inputs.rewards);
    throw error;
  }
}

/** The commit of the hub behind a name. */
const COMMIT = /@[0-9a-f]{40}(?=\s|$)/g;

/** A name of the hub given anew without a revision means what the run began with, whose commit is stored. */
function withStoredCommits(wanted: Config, stored: Config): Config {
  const kept = <Name extends string | null>(name: Name, before: Name): Name =>
    before?.replace(COMMIT, '') === name ? before : name;
  return {
    ...wanted,
    model: kept(wanted.model, stored.model),
    dataset: kept(wanted.dataset, stored.dataset),
    evalDataset: kept(wanted.evalDataset, stored.evalDataset),
  };
}

/** `wanted`, made of a stored configuration and settings given anew, by names that last. */
export const overStored = (stored: Config, wanted: Config): Config =>
  withStoredCommits(withAbsolutePaths(wanted), stored);

/** The stored configuration with the given settings laid over it, and as it is stored. */
function resumedConfig(run: RunDirectory, given: Given): { stored: Config; wanted: Config } {
  const own = run.settings() as ConfigInput;
  const { preset, ...values } = given;
  const stored = resolveTrainConfig([own]);
  // A preset's values are laid over the stored ones like any others.
  const over = mergeLayers([values], preset);
  delete over.preset;
  return { stored, wanted: overStored(stored, resolveTrainConfig([own, over])) };
}

/** Locks the run and finds what to go on from. @throws BAD_CONFIG for a change that is not allowed */
export async function openResumed(
  path: string,
  given: Given,
  parts: SessionParts,
  fetching: ModelFetchOptions,
  warn: Warn,
): Promise<Opening> {
  const { stored, wanted } = resumedConfig(readRunDirectory(path), given);
  const directory = openRunDirectory(path);
  try {
    completeRollbacks(directory);
    const checkpoint = findCheckpoint(directory, warn);
    if (checkpoint === null) refuseBrokenFork(directory);
    const before = checkpoint === null ? stored : resolveTrainConfig([storedPart(checkpoint).config]);
    for (const change of allowedChanges(before, wanted, path, checkpoint?.step ?? 0)) warn(change);
    const inputs = await openInputs(wanted, parts, fetching);
    if (checkpoint !== null) await checkData(path, checkpoint, inputs);
    const config = withPinnedData(wanted, inputs, parts);
    return { directory, config, inputs, resumed: true, checkpoint };
  } catch (error) {
    directory.lock?.release();
    throw error;
  }
}

/** A position in other data means other problems, and their order is a function of their number. */
async function checkData(
  run: string,
  checkpoint: StoredCheckpoint,
  { trainData, rewards }: Inputs,
): Promise<void> {
  const { datasetSize, data: before } = storedPart(checkpoint);
  const { size, name, source } = trainData;
  const sameRows = before === null || before === (source?.fingerprint ?? null);
  if (sameRows && datasetSize === size) return;
  await closeRewards(rewards);
  const fault = sameRows
    ? `The training data has ${size} problems now and had ${datasetSize} when the run began`
    : `${name} no longer holds the problems this run began with, so it cannot go on where it stopped`;
  throw new AcoerError(
    'BAD_INPUT',
    `${fault}; bring the old data back, or go on under the new in a new folder: ${forkCommand(run, checkpoint.step)}`,
  );
}

/** The configuration and summary of a run with nothing left to do. */
export function finishedRun(path: string, given: Given): { config: Config; summary: RunSummary } | null {
  const directory = readRunDirectory(path);
  const { stored, wanted } = resumedConfig(directory, given);
  if (!directory.finished(stored.maxSteps) || wanted.maxSteps > stored.maxSteps) return null;
  allowedChanges(stored, wanted, path, stored.maxSteps);
  // Killed behind its summary: what that left goes.
  if (directory.isLocked()) openRunDirectory(path).lock?.release();
  return { config: stored, summary: directory.readJson(directory.summary()) as RunSummary };
}
