/** GRPO as a method of a run: its settings, code and data, new, as a run has them, or as a fork continues them. */
import { mergeLayers, type Config, type ConfigInput } from '../config';
import { badInput, badUsage } from '../base/errors';
import { isRecord } from '../base/json';
import type { RunSummary } from '../life/events';
import type { Asked, Method, Opening } from '../life/method';
import { finishedSettings, admitRun, openIn } from '../life/opening';
import { filesNamed, modulesOf } from '../life/modules/user-modules';
import { withLastingModel, withStoredCommits } from '../life/names';
import { trackerTag } from '../base/metric-names';
import { listRewards } from '../rewards/registry';
import {
  readRunDirectory,
  type RunDirectory,
  type StoredCheckpoint,
  copyRunStart,
  discardRunDirectory,
  openCheckpoint,
} from '../run';
import { checkModules, checkResumed, samplerChange, checkForked, forkChanges } from './identity';
import {
  closeInputs,
  openInputs,
  resolveTrainConfig,
  withAbsolutePaths,
  withPinnedData,
  type Inputs,
  type OwnParts,
} from './inputs';
import type { PlainParts } from './options';
import { CHANGEABLE, forkCommand } from './resume';
import { checkAlone } from './served';
import { silencesOf } from './silences';
import { lacksIdentity, storedPart } from './state';
import { readSummary } from './stored-summary';
import { sameSteps } from '../life/changes';

/** What the caller of `train` gave. */
export interface TrainAsked extends Asked {
  settings: ConfigInput & { preset?: string };
  parts: OwnParts;
  acceptChanged: readonly 'reward'[];
  /** Processes of the run. */
  ranks: number;
}

export interface TrainOpening extends Opening<Config, Inputs> {
  /** `checkpoint` is another run's. `keepOpen`: finish the updates that are left of its batch. */
  fork?: { keepOpen: boolean; otherEvalData: boolean };
}

/** `wanted`, a stored configuration under new settings, with paths and commits that keep their meaning. */
export const overStored = (stored: Config, wanted: Config): Config =>
  withStoredCommits(withAbsolutePaths(wanted), stored);

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
  throw badUsage(
    `${run} was trained with the reward "${unknown}", which its program had registered: call registerReward('${unknown}', ...) before train({}, { resume }), or give the function again as reward.`,
  );
}

/** The stored configuration, and the same under the new settings. */
function resolveOver(
  run: RunDirectory,
  { settings: { preset, ...values }, parts: { rewards } }: Pick<TrainAsked, 'settings' | 'parts'>,
): { stored: Config; wanted: Config } {
  const own = run.trainSettings() as ConfigInput;
  checkRegistered(run.path, { ...own }, rewards);
  const stored = resolveTrainConfig([own], undefined, rewards);
  // A preset's values replace the stored ones like any others.
  const over = mergeLayers([values], preset);
  delete over.preset;
  return { stored, wanted: overStored(stored, resolveTrainConfig([own, over], undefined, rewards)) };
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
  throw badInput(
    `${fault}; restore the old data, or continue with the new data in a new folder: ${forkCommand(run, checkpoint.step)}`,
  );
}

export const GRPO: Method<Config, Inputs, TrainAsked> = {
  command: 'train',
  changeable: CHANGEABLE,
  resolve: ({ settings, parts }) => resolveTrainConfig([settings], undefined, parts.rewards),
  resolveOver,
  resolveStored: (checkpoint, { parts }) =>
    resolveTrainConfig([storedPart(checkpoint).config], undefined, parts.rewards),
  comparesFiles: (checkpoint) => !lacksIdentity(checkpoint),
  modules: modulesOf,
  named: ({ settings }) => filesNamed(settings),
  lasting: (config, { fetching }) => withLastingModel(withAbsolutePaths(config), fetching),
  async checkModules(run, checkpoint, config, { acceptChanged, fetching }) {
    const change = await samplerChange(checkpoint, config);
    if (change !== null) fetching.onNotice?.(change);
    return checkModules(run, checkpoint, config, acceptChanged);
  },
  openInputs(config, { parts, fetching, ranks }) {
    checkAlone(config, ranks);
    return openInputs(config, parts, fetching);
  },
  closeInputs,
  checkInputs(run, checkpoint, inputs, config) {
    checkData(run, checkpoint, inputs);
    checkResumed(run, checkpoint, inputs, config);
  },
  pinned: (config, inputs, { parts }) => withPinnedData(config, inputs, parts),
  nameOf: ({ name }, { rewards }) => name ?? rewards.map(({ reward }) => reward.name).join('+'),
  silences: silencesOf,
  judgedBy: ({ evalProblems, evalSampledProblems }) => [
    ...(evalProblems > 0 ? ['final/greedy_accuracy', 'final/greedy_thinking_tokens'] : []),
    ...(evalSampledProblems > 0 ? ['final/sampled_accuracy', 'final/sampled_thinking_tokens'] : []),
    ...['reward', 'accuracy/mean', 'thinking/mean', 'completions/mean_length'].map(trackerTag),
  ],
};

/** The configuration and summary of a finished run; null: there are steps left. */
export function finishedRun(path: string, asked: TrainAsked): { config: Config; summary: RunSummary } | null {
  const config = finishedSettings(GRPO, path, asked);
  return config && { config, summary: readSummary(readRunDirectory(path)) };
}

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
  throw badUsage(`${source.path} has no checkpoint of step ${at} (${known}).`);
}

/** @throws BAD_CONFIG for a fork that cannot continue from its checkpoint */
function checkSettings(checkpoint: StoredCheckpoint, before: Config, config: Config): void {
  const { step: at } = checkpoint;
  if (config.maxSteps <= at) {
    throw badUsage(`maxSteps is ${config.maxSteps}: a fork at step ${at} needs more.`);
  }
  // A model whose files are compared may have moved.
  const fixed = lacksIdentity(checkpoint) ? (['model', ...FIXED] as const) : FIXED;
  const changed = fixed.find((name) => JSON.stringify(config[name]) !== JSON.stringify(before[name]));
  if (changed === undefined) return;
  throw badUsage(`A fork continues with the weights of its checkpoint, so ${changed} cannot change.`);
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
    throw badUsage('A fork starts from the settings of its run; leave out preset.');
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
