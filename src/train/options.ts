/** What a program gives `train` besides settings, the checks of it, and the names that its settings have for it. */
import { needMethods, checkName } from '../base/border';
import { CONFIG_KEYS, type ConfigInput } from '../config';
import { givenDataset, memoryName } from '../data';
import { badUsage } from '../base/errors';
import { shownJson, isRecord } from '../base/json';
import { checkCall, OWN_FORMS, RUN_OPTIONS, type CallForm, type RunOptions } from '../life/call';
import { givenTokenizer } from '../tokenizer';
import type { TrainEvent } from '../life/events';
import type { ForkPoint } from './opening';
import type { GivenParts } from './inputs';
import { functionJudgeName, type JudgeFunction } from '../judges';
import { EVALUATION_ROWS, ROWS } from '../life/names';
import type { RewardDefinition } from '../rewards';
import { isBuiltIn } from '../rewards/registry';
import { definitionOf, type RewardFunction } from '../rewards/user';
import type { Row } from '../base/types';
import { functionSamplerName, type SamplerMaker } from './sampler';

type RewardEntry = Extract<NonNullable<ConfigInput['reward']>, readonly unknown[]>[number];

/** Options of `train` that are code or data of this process; config.json holds a name for each. */
export interface PlainOptions {
  /** The rows of the training data (docs/tasks.md). */
  dataset?: readonly Row[] | undefined;
  /** The rows to evaluate on. */
  evalDataset?: readonly Row[] | undefined;
  /** A reward, or a list of functions and of {name, weight, params}: the reward is their sum. */
  reward?: RewardFunction | readonly (RewardFunction | RewardEntry)[] | undefined;
  /** Decides whether a completion is right. */
  judge?: JudgeFunction | undefined;
  /** Makes the sampler for rollouts. Evaluations always sample with the engine. */
  sampler?: SamplerMaker | undefined;
}

/** What was given as code and data. */
export interface PlainParts {
  trainRows?: readonly Row[];
  evalRows?: readonly Row[];
  rewards?: ReadonlyMap<string, RewardDefinition>;
  judge?: JudgeFunction;
  sampler?: SamplerMaker;
}

type Settings = Pick<ConfigInput, 'dataset' | 'evalDataset' | 'reward' | 'judge' | 'sampler'>;

/** A function's own name; a number follows the second of that name. */
function nameFor(reward: RewardFunction, taken: ReadonlySet<string>): string {
  const own = reward.name || 'reward';
  checkName('reward', own);
  if (isBuiltIn(own)) {
    throw badUsage(`A reward named "${own}" is built in; give the function another name`);
  }
  let name = own;
  for (let number = 2; taken.has(name); number++) name = `${own}${number}`;
  return name;
}

function plainRewards(given: readonly (RewardFunction | RewardEntry)[]) {
  const rewards = new Map<string, RewardDefinition>();
  const taken = new Set(given.flatMap((entry) => (typeof entry === 'function' ? [] : [entry?.name])));
  const entries = given.map((entry): RewardEntry => {
    if (typeof entry !== 'function') {
      if (isRecord(entry)) return entry;
      throw badUsage(`reward must list functions or {name, weight, params}, not ${shownJson(entry)}`);
    }
    const name = nameFor(entry, taken);
    taken.add(name);
    rewards.set(name, definitionOf(name, entry));
    return { name };
  });
  return { entries, rewards };
}

function rewardParts(reward: PlainOptions['reward']): {
  settings: Settings;
  rewards?: PlainParts['rewards'];
} {
  if (reward === undefined) return { settings: {} };
  const { entries, rewards } = plainRewards(typeof reward === 'function' ? [reward] : reward);
  // Settings of a single reward are easier to read.
  const single = typeof reward === 'function' ? entries[0]!.name : entries;
  return { settings: { reward: single }, rewards };
}

/** The parts of a run that were given as code and data, and the settings that name them. */
export function plainParts({ dataset, evalDataset, reward, judge, sampler }: PlainOptions): {
  settings: Settings;
  parts: PlainParts;
} {
  const { settings, rewards } = rewardParts(reward);
  return {
    settings: {
      ...settings,
      ...(dataset && { dataset: memoryName(ROWS) }),
      ...(evalDataset && { evalDataset: memoryName(EVALUATION_ROWS) }),
      ...(judge && { judge: functionJudgeName(judge) }),
      ...(sampler && { sampler: functionSamplerName(sampler) }),
    },
    parts: {
      ...(rewards && { rewards }),
      ...(dataset && { trainRows: dataset }),
      ...(evalDataset && { evalRows: evalDataset }),
      ...(judge && { judge }),
      ...(sampler && { sampler }),
    },
  };
}

/** Settings of the configuration, which override those of a preset: what a file can hold. */
export interface TrainSettings extends ConfigInput {
  /** Default: `tiny` for the embedded model, else `paper`. */
  preset?: string | undefined;
}

/** How to run, and code and data of this process. One with the name of a setting is used instead of that. */
export interface TrainOptions extends RunOptions<TrainEvent>, PlainOptions, GivenParts {
  /**
   * With `resume`: continue although this has changed since the checkpoint; the run shows it. Everything else
   * must be the same.
   * @default []
   */
  acceptChanged?: readonly 'reward'[];
  /** A run's checkpoint to continue from, in a new folder and with the settings given here. */
  fork?: ForkPoint;
}

const { rows, code, codes, objects } = OWN_FORMS;
const OWN = {
  dataset: rows,
  evalDataset: rows,
  reward: codes,
  judge: code,
  sampler: code,
  sinks: objects,
} as const;

/** A record, so that none can be forgotten. */
const OPTIONS: Record<Exclude<keyof TrainOptions, keyof RunOptions | keyof typeof OWN>, true> = {
  fork: true,
  acceptChanged: true,
  engine: true,
  tokenizer: true,
  trainData: true,
  evalData: true,
};

export const TRAIN_CALL: CallForm = {
  call: 'train',
  settings: ['preset', ...CONFIG_KEYS],
  options: [...RUN_OPTIONS, ...Object.keys(OPTIONS)],
  own: OWN,
};

/** @throws BAD_CONFIG for something that cannot be accepted, or for a run that is not resumed */
function checkAcceptance({ acceptChanged = [], resume }: TrainOptions): void {
  const unknown = acceptChanged.find((what) => (what as string) !== 'reward');
  if (unknown !== undefined) {
    throw badUsage(`acceptChanged can name reward only, not ${shownJson(unknown)}.`);
  }
  if (acceptChanged.length > 0 && resume === undefined) {
    throw badUsage('acceptChanged is about resuming a run: leave it out, or name resume.');
  }
}

/** @throws BAD_CONFIG for a new run, all of whose code its caller names */
function checkTrust({ trust = false, resume, fork }: TrainOptions): void {
  if (typeof trust !== 'boolean') {
    throw badUsage(`trust must be true or false, not ${shownJson(trust)}.`);
  }
  if (trust && resume === undefined && fork === undefined) {
    throw badUsage('trust is about a run to resume or to fork: leave it out, or name one.');
  }
}

/**
 * The options with tokenizer and data that are checked each time they are asked.
 * @throws BAD_ARGUMENT, BAD_CONFIG naming the option or setting that is in the wrong place, or not what it must be
 */
export function givenOptions(settings: TrainSettings, options: TrainOptions): TrainOptions {
  checkCall(TRAIN_CALL, settings, options);
  const { engine, tokenizer, trainData, evalData } = options;
  if (engine !== undefined) needMethods('engine', engine, ['loadModel', 'memory', 'dispose']);
  if (options.resume !== undefined && options.fork !== undefined) {
    throw badUsage('A run is either resumed or forked: leave out resume or fork.');
  }
  checkAcceptance(options);
  checkTrust(options);
  return {
    ...options,
    ...(tokenizer !== undefined && { tokenizer: givenTokenizer('tokenizer', tokenizer) }),
    ...(trainData !== undefined && { trainData: givenDataset('trainData', trainData) }),
    ...(evalData !== undefined && { evalData: givenDataset('evalData', evalData) }),
  };
}
