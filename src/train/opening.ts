/** Opening a run's directory, new or to resume: everything that is settled before a model is loaded. */
import { mergeLayers, type Config, type ConfigInput } from '../config';
import { AcoerError } from '../errors';
import { isRecord } from '../json';
import type { ModelFetchOptions } from '../models';
import {
  completeRollbacks,
  createRunDirectory,
  findCheckpoint,
  newRunPath,
  openRunDirectory,
  readRunDirectory,
  refuseBrokenFork,
  type AcceptedChange,
  type RunDirectory,
  type StoredCheckpoint,
} from '../run';
import type { RunSummary } from '../life/events';
import { listRewards } from '../rewards/registry';
import type { PlainParts } from './plain';
import { checkModules, checkResumed } from './identity';
import {
  closeInputs,
  openInputs,
  resolveTrainConfig,
  withAbsolutePaths,
  withLastingNames,
  withPinnedData,
  type Inputs,
  type OwnParts,
} from './inputs';
import { admitModules, filesNamed, modulesOf, rememberModules } from '../life/modules/named-modules';
import { storedCommit } from '../life/names';
import { allowedChanges, forkCommand } from './resume';
import { lacksIdentity, storedPart } from './state';
import { readSummary } from './stored-summary';

/** What the caller of `train` gave. */
export interface Asked {
  settings: ConfigInput & { preset?: string };
  parts: OwnParts;
  fetching: ModelFetchOptions;
  /** What may have changed since the run was interrupted. */
  acceptChanged: readonly 'reward'[];
  /** The code that a resumed or forked run names may be loaded. */
  trust: boolean;
}

export interface Opening {
  directory: RunDirectory;
  config: Config;
  inputs: Inputs;
  resumed: boolean;
  checkpoint: StoredCheckpoint | null;
  /** Changes that the user has accepted, now or before. */
  accepted: AcceptedChange[];
  /** `checkpoint` is another run's. `keepOpen`: finish the updates that are left of its batch. */
  fork?: { keepOpen: boolean; otherEvalData: boolean };
}

export async function openNew(out: string | undefined, asked: Asked): Promise<Opening> {
  const resolved = resolveTrainConfig([asked.settings], undefined, asked.parts.rewards);
  await rememberModules(modulesOf(resolved), noticeOf(asked));
  return openIn(out, await withLastingNames(resolved, asked.fetching), asked);
}

const noticeOf =
  ({ fetching }: Asked) =>
  (message: string): void =>
    fetching.onNotice?.(message);

/** Checks the modules that the run in `path` names under `wanted`. @throws BAD_INPUT, BAD_CONFIG */
export function admitRun(
  path: string,
  wanted: Config,
  asked: Asked,
  compare?: () => Promise<void>,
): Promise<void> {
  const { settings, trust, acceptChanged } = asked;
  const trusted = {
    named: filesNamed(settings),
    trust,
    changedRewards: acceptChanged.includes('reward'),
    compare,
  };
  return admitModules(path, modulesOf(wanted), trusted, noticeOf(asked));
}

/** A new directory for a run under `wanted`. */
export async function openIn(
  out: string | undefined,
  wanted: Config,
  { parts, fetching }: Asked,
): Promise<Opening> {
  const inputs = await openInputs(wanted, parts, fetching);
  try {
    const config = withPinnedData(wanted, inputs, parts);
    const name = config.name ?? inputs.rewards.map(({ reward }) => reward.name).join('+');
    const directory = createRunDirectory(out ?? newRunPath('runs', name), config);
    return { directory, config, inputs, resumed: false, checkpoint: null, accepted: [] };
  } catch (error) {
    await closeInputs(inputs);
    throw error;
  }
}

/** `wanted`, a stored configuration under new settings, with paths and commits that keep their meaning. */
export function overStored(stored: Config, wanted: Config): Config {
  const absolute = withAbsolutePaths(wanted);
  return {
    ...absolute,
    model: storedCommit(absolute.model, stored.model),
    dataset: storedCommit(absolute.dataset, stored.dataset),
    evalDataset: storedCommit(absolute.evalDataset, stored.evalDataset),
  };
}

/**
 * @param stored read from the run and not checked yet: what has another form is reported with all settings
 * @throws BAD_CONFIG for a reward that the program which trained the run had registered
 */
function checkRegistered(
  run: string,
  stored: Readonly<Record<string, unknown>>,
  own: PlainParts['rewards'] = new Map(),
): void {
  const { reward, rewardModules } = stored;
  const entries: unknown[] = Array.isArray(reward) ? reward : [{ name: reward }];
  const names = entries.flatMap((entry) =>
    isRecord(entry) && typeof entry.name === 'string' ? [entry.name] : [],
  );
  const known = new Set([
    ...listRewards().map(({ name }) => name),
    ...own.keys(),
    ...Object.keys(isRecord(rewardModules) ? rewardModules : {}),
  ]);
  const unknown = names.find((name) => !known.has(name));
  if (unknown === undefined) return;
  throw new AcoerError(
    'BAD_CONFIG',
    `${run} was trained with the reward "${unknown}", which its program had registered: call registerReward('${unknown}', ...) before train({ resume }), or give the function again as reward.`,
  );
}

/** The stored configuration, and the same under the new settings. */
function resumedConfig(
  run: RunDirectory,
  { settings: { preset, ...values }, parts: { rewards } }: Pick<Asked, 'settings' | 'parts'>,
): { stored: Config; wanted: Config } {
  const own = run.trainSettings() as ConfigInput;
  checkRegistered(run.path, { ...own }, rewards);
  const stored = resolveTrainConfig([own], undefined, rewards);
  // A preset's values replace the stored ones like any others.
  const over = mergeLayers([values], preset);
  delete over.preset;
  return { stored, wanted: overStored(stored, resolveTrainConfig([own, over], undefined, rewards)) };
}

/**
 * Locks the run and finds the checkpoint to continue from.
 * @param warn gets one sentence for each changed setting
 * @throws BAD_CONFIG for a change that is not allowed
 */
export async function openResumed(
  path: string,
  asked: Asked,
  warn: (message: string) => void,
): Promise<Opening> {
  const { parts, fetching, acceptChanged } = asked;
  const { stored, wanted } = resumedConfig(readRunDirectory(path), asked);
  const directory = openRunDirectory(path);
  try {
    completeRollbacks(directory);
    const checkpoint = await findCheckpoint(directory, warn);
    if (checkpoint === null) refuseBrokenFork(directory);
    const before =
      checkpoint === null
        ? stored
        : resolveTrainConfig([storedPart(checkpoint).config], undefined, parts.rewards);
    const step = checkpoint?.step ?? 0;
    const compared = checkpoint !== null && !lacksIdentity(checkpoint);
    for (const change of allowedChanges(before, wanted, path, step, compared)) warn(change);
    let accepted: AcceptedChange[] = [];
    await admitRun(path, wanted, asked, async () => {
      if (checkpoint !== null) accepted = await checkModules(path, checkpoint, wanted, acceptChanged);
    });
    const inputs = await openInputs(wanted, parts, fetching);
    await orClose(inputs, () => {
      if (checkpoint === null) return;
      checkData(path, checkpoint, inputs);
      checkResumed(path, checkpoint, inputs, wanted);
    });
    const config = withPinnedData(wanted, inputs, parts);
    return { directory, config, inputs, resumed: true, checkpoint, accepted };
  } catch (error) {
    directory.lock?.release();
    throw error;
  }
}

/** Closes `inputs` when `check` throws. */
export async function orClose<T>(inputs: Inputs, check: () => T): Promise<T> {
  try {
    return check();
  } catch (error) {
    await closeInputs(inputs);
    throw error;
  }
}

/** In different data the stored position means different problems; their order depends on their number. */
function checkData(run: string, checkpoint: StoredCheckpoint, { trainData }: Inputs): void {
  const { datasetSize, data: before } = storedPart(checkpoint);
  const { size, name, source } = trainData;
  const sameRows = before === null || before === (source?.fingerprint ?? null);
  if (sameRows && datasetSize === size) return;
  const fault = sameRows
    ? `The training data has ${size} problems now and had ${datasetSize} when the run began`
    : `${name} no longer holds the problems this run began with, so it cannot continue where it stopped`;
  throw new AcoerError(
    'BAD_INPUT',
    `${fault}; restore the old data, or continue with the new data in a new folder: ${forkCommand(run, checkpoint.step)}`,
  );
}

/** The configuration and summary of a finished run; null: there are steps left. */
export function finishedRun(
  path: string,
  asked: Pick<Asked, 'settings' | 'parts'>,
): { config: Config; summary: RunSummary } | null {
  const directory = readRunDirectory(path);
  const { stored, wanted } = resumedConfig(directory, asked);
  if (!directory.finished(stored.maxSteps) || wanted.maxSteps > stored.maxSteps) return null;
  allowedChanges(stored, wanted, path, stored.maxSteps, true);
  // The process was killed after writing the summary: remove the stale lock.
  if (directory.isLocked()) openRunDirectory(path).lock?.release();
  return { config: stored, summary: readSummary(directory) };
}
