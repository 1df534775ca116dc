/** What a run reads before any model is loaded, so that mistakes show before a file is written. */
import { resolve } from 'node:path';
import { resolveConfig, type Config, type ConfigInput } from '../config';
import { datasetOf, evalSpec, loadRunData, memoryName, trainSpec, type Dataset } from '../data';
import type { Engine } from '../engine/types';
import { resolveModel, type ModelFetchOptions } from '../models';
import { assertRoomForPrompt, readPlannedModel } from '../plan';
import { isJudgeFile, isUserJudge } from '../judges';
import { isBuiltIn, listRewards, resolveReward } from '../rewards/registry';
import { DEFAULT_PROMPT_TEMPLATE, loadTokenizer, promptFaults, type Tokenizer } from '../tokenizer';
import type { WeightedReward } from '../rewards/types';
import { inputIdentity } from './identity';
import type { Identity } from './state';
import { noteUnanswerable, skippedPrompts } from './long-prompts';
import { openJudge, type OpenedJudge } from './judging';
import { EVALUATION_ROWS, ROWS, withAbsoluteNames } from '../life/names';
import type { ModelInputs } from '../life/policy';
import type { PlainParts } from './options';
import { openSampler, withAbsoluteFile, type BoundSampler } from './sampler';
import { openRewardModule } from '../life/modules/reward-module';

/** Parts that the caller may bring; the others are made from the configuration. */
export interface GivenParts {
  /** Stays open when the run ends. */
  engine?: Engine;
  tokenizer?: Tokenizer;
  trainData?: Dataset;
  evalData?: Dataset;
}

/** The same with what was given as plain code and data. */
export type OwnParts = GivenParts & PlainParts;

export interface Inputs extends ModelInputs {
  rewards: WeightedReward[];
  judge: OpenedJudge;
  makeSampler: BoundSampler;
  trainData: Dataset;
  /** Rows of `trainData` whose prompts are too long. */
  skippedRows: Set<number>;
  /** null: nothing is evaluated. */
  evalData: Dataset | null;
  /** Without the model, whose files are read while it is loaded. */
  identity: Omit<Identity, 'model'>;
}

/** `resolveConfig` with the names of the registered rewards and of `own`, those given as functions. */
export function resolveTrainConfig(
  layers: readonly (ConfigInput & { preset?: string })[],
  preset?: string,
  own: PlainParts['rewards'] = new Map(),
): Config {
  return resolveConfig(layers, preset, [...listRewards().map(({ name }) => name), ...own.keys()]);
}

/**
 * The configured rewards with their parameters bound. Each reward of `rewardModules` gets a thread, which
 * `closeRewards` ends.
 * @throws BAD_CONFIG for an unknown name or parameter, or a module that is not a reward
 */
export async function openRewards(
  config: Config,
  given?: PlainParts['rewards'],
  signal?: AbortSignal,
): Promise<WeightedReward[]> {
  const { rewardModules, rewardTimeoutMs, maxCompletionLength: maxLength } = config;
  const entries =
    typeof config.reward === 'string' ? [{ name: config.reward, weight: 1, params: {} }] : config.reward;
  const opened: WeightedReward[] = [];
  try {
    for (const { name, weight, params: own } of entries) {
      const params = { ...config.rewardParams[name], ...own };
      const path = rewardModules[name];
      const reward =
        path === undefined
          ? (given?.get(name)?.bind(params) ?? resolveReward(name, params))
          : await openRewardModule(
              { name, path: resolve(path), params, maxLength },
              rewardTimeoutMs,
              undefined,
              signal,
            );
      opened.push({ reward, weight });
    }
    return opened;
  } catch (error) {
    await closeRewards(opened);
    throw error;
  }
}

export async function closeRewards(rewards: readonly WeightedReward[]): Promise<void> {
  await Promise.all(rewards.map(async ({ reward }) => reward.close?.()));
}

/** Ends the threads of rewards and judge. */
export async function closeInputs({ rewards, judge }: Pick<Inputs, 'rewards' | 'judge'>): Promise<void> {
  await Promise.all([closeRewards(rewards), judge.close()]);
}

/** What was left out of the training data, or null when every row was taken. */
function leftOut({ name, source }: Dataset, dropUnparsedGold: boolean): string | null {
  if (source === undefined) return null;
  const { badRows, unparsedGold } = source;
  const parts = [
    ...(badRows.count > 0 ? [`${badRows.count} rows that cannot be read (${badRows.examples[0]})`] : []),
    ...(dropUnparsedGold && unparsedGold.count > 0
      ? [`${unparsedGold.count} whose gold answer the verifier cannot read (${unparsedGold.examples[0]!.at})`]
      : []),
  ];
  return parts.length === 0 ? null : `${name}: of ${source.rows} rows, left out: ${parts.join(' and ')}.`;
}

/** Rows in memory as data sets. */
async function givenData(config: Config, parts: OwnParts, keepRows: boolean, signal?: AbortSignal) {
  const { trainRows, evalRows } = parts;
  const wanted = { ...trainSpec(config), signal, keepRows };
  const trainData = trainRows ? await datasetOf(ROWS, trainRows, wanted) : parts.trainData;
  const evalData = evalRows
    ? await datasetOf(EVALUATION_ROWS, evalRows, { ...evalSpec(config), signal })
    : parts.evalData;
  return { ...(trainData && { trainData }), ...(evalData && { evalData }) };
}

/** The problems of a run: those to train on, and those to evaluate on (null: no evaluation). */
async function openData(
  config: Config,
  parts: OwnParts,
  rewards: readonly WeightedReward[],
  options: ModelFetchOptions,
): Promise<{ trainData: Dataset; evalData: Dataset | null }> {
  const keepRows = isUserJudge(config.judge) || rewards.some(({ reward }) => !isBuiltIn(reward.name));
  const given = await givenData(config, parts, keepRows, options.signal);
  const { trainData, evalData, whole, notices } = await loadRunData(config, given, { ...options, keepRows });
  const note = leftOut(whole, config.dropUnparsedGold);
  for (const message of [...(note === null ? [] : [note]), ...notices]) options.onNotice?.(message);
  return { trainData, evalData };
}

/** Absolute paths, because a run may be resumed from another folder. */
export function withAbsolutePaths(config: Config): Config {
  const { rewardModules, judge, sampler } = config;
  const modules = Object.entries(rewardModules).map(([name, file]) => [name, resolve(file)]);
  return {
    ...withAbsoluteNames(config),
    rewardModules: Object.fromEntries(modules) as Record<string, string>,
    judge: isJudgeFile(judge) ? resolve(judge) : judge,
    sampler: withAbsoluteFile(sampler),
  };
}

/**
 * Data sets by names that mean exactly these rows, so that a resumed run continues with them: a hub data set
 * by the commit that was read, one in memory by a name that nothing else has.
 */
export function withPinnedData(config: Config, { trainData, evalData }: Inputs, given: OwnParts): Config {
  const held = given.trainData && memoryName(given.trainData.name);
  // Data that nothing is evaluated on has no place in the configuration.
  const evaluates = config.evalProblems > 0 || config.evalSampledProblems > 0;
  const heldEval = evaluates && given.evalData ? memoryName(given.evalData.name) : null;
  const evalDataset = heldEval ?? config.evalDataset;
  return {
    ...config,
    dataset: trainData.source?.pinned ?? held ?? config.dataset,
    evalDataset: evalDataset === null ? null : (evalData?.source?.pinned ?? evalDataset),
  };
}

/** A vocabulary that has no tokens for the tags may belong to a model that never writes them. */
function noteThinking(
  { model }: Config,
  rewards: readonly WeightedReward[],
  { thinkOpenId, thinkCloseId }: Tokenizer,
  onNotice: ModelFetchOptions['onNotice'],
): void {
  if (thinkOpenId !== null && thinkCloseId !== null) return;
  const reward = rewards.find((entry) => entry.reward.needsThinking === true)?.reward.name;
  if (reward === undefined) return;
  onNotice?.(
    `The vocabulary of ${model} has no <think> and </think>, so reward ${reward} looks for them in the text; for a model that does not write them, set rewardParams.${reward}.lengthOf to total, and formatWeight to 0 (it asks for closed thinking).`,
  );
}

/** A prompt for mathematics under another judge is hardly meant. */
function notePrompt({ judge, promptTemplate }: Config, onNotice: ModelFetchOptions['onNotice']): void {
  if (judge === 'math' || promptTemplate !== DEFAULT_PROMPT_TEMPLATE) return;
  onNotice?.(
    `promptTemplate still asks for mathematics in a \\boxed{}, but the judge is ${judge}; set it, for example to "{problem}", the question as it is.`,
  );
}

/** `options.onNotice` is also told what was left out of the data and which prompts are too long. */
export async function openInputs(
  config: Config,
  parts: OwnParts,
  options: ModelFetchOptions,
): Promise<Inputs> {
  const rewards = await openRewards(config, parts.rewards, options.signal);
  const judge = await openJudge(config, parts.judge, options.signal).catch(async (error: unknown) => {
    await closeRewards(rewards);
    throw error;
  });
  try {
    const makeSampler = await openSampler(config, parts.sampler);
    const { directory: modelDirectory } = await resolveModel(config.model, options);
    const planned = await readPlannedModel(modelDirectory);
    assertRoomForPrompt(config, planned);
    const tokenizer = parts.tokenizer ?? (await loadTokenizer(modelDirectory));
    noteThinking(config, rewards, tokenizer, options.onNotice);
    notePrompt(config, options.onNotice);
    const { trainData, evalData } = await openData(config, parts, rewards, options);
    const skippedRows = await skippedPrompts(config, planned, { tokenizer, trainData }, options);
    const { onNotice, signal } = options;
    const count = Math.max(config.evalProblems, config.evalSampledProblems);
    const sets = [trainData, ...(evalData === null ? [] : [{ ...evalData, count }])];
    for (const fault of await promptFaults(tokenizer, sets, { ...config, signal })) onNotice?.(fault);
    if (evalData !== null && onNotice !== undefined) {
      await noteUnanswerable({ dataset: evalData, count, tokenizer, config, signal }, planned, onNotice);
    }
    const identity = await inputIdentity(config, { tokenizer, evalData });
    const data = { trainData, skippedRows, evalData };
    return { rewards, judge, makeSampler, modelDirectory, planned, tokenizer, ...data, identity };
  } catch (error) {
    await closeInputs({ rewards, judge });
    throw error;
  }
}
