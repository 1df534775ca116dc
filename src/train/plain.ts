/** Plain functions and arrays given to `train`, as parts of a run and the names that its settings have for them. */
import { checkName } from '../base/border';
import type { ConfigInput } from '../config';
import { memoryName } from '../data';
import { AcoerError } from '../base/errors';
import { functionJudgeName, type JudgeFunction } from '../judges';
import { isRecord, shownJson } from '../base/json';
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
    throw new AcoerError('BAD_CONFIG', `A reward named "${own}" is built in; give the function another name`);
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
      throw new AcoerError(
        'BAD_CONFIG',
        `reward must list functions or {name, weight, params}, not ${shownJson(entry)}`,
      );
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
