/** Plain functions and arrays given to `train`, as parts of a run and the names that its settings have for them. */
import { checkName } from '../border';
import type { ConfigInput } from '../config';
import { memoryName } from '../data';
import { AcoerError } from '../errors';
import { functionJudgeName, type JudgeFunction } from '../judges';
import { isRecord, shownJson } from '../json';
import { EVALUATION_ROWS, ROWS } from '../life/names';
import type { RewardDefinition } from '../rewards';
import { isBuiltIn } from '../rewards/registry';
import { definitionOf, type RewardFunction } from '../rewards/user';
import type { Row } from '../types';

type RewardEntry = Extract<NonNullable<ConfigInput['reward']>, readonly unknown[]>[number];

/** Settings of `train` that also take code and data instead of names. */
export interface PlainOptions {
  /**
   * Training data by name, as in a configuration, or its rows (docs/tasks.md).
   * @default "AI-MO/NuminaMath-TIR"
   */
  dataset?: string | readonly Row[] | undefined;
  /**
   * Evaluation data, given like `dataset`; null: the evaluation split of `dataset`.
   * @default null
   */
  evalDataset?: string | null | readonly Row[] | undefined;
  /**
   * A reward by name, a function, or a list of functions and of {name, weight, params}: the reward is their sum.
   * @default "acoer"
   */
  reward?: string | RewardFunction | readonly (RewardFunction | RewardEntry)[] | undefined;
  /**
   * What decides whether a completion is right: math, exact, choice, regex, a JavaScript file, or a function.
   * @default "math"
   */
  judge?: string | JudgeFunction | undefined;
}

/** What was given as code and data. */
export interface PlainParts {
  trainRows?: readonly Row[];
  evalRows?: readonly Row[];
  rewards?: ReadonlyMap<string, RewardDefinition>;
  judge?: JudgeFunction;
}

type Settings = Pick<ConfigInput, 'dataset' | 'evalDataset' | 'reward' | 'judge'>;

const isRows = (value: unknown): value is readonly Row[] => Array.isArray(value);

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
  if (reward === undefined || typeof reward === 'string') return { settings: reward ? { reward } : {} };
  const list = typeof reward === 'function' ? [reward] : reward;
  if (!Array.isArray(list)) return { settings: { reward: list as never } };
  const { entries, rewards } = plainRewards(list);
  // Settings of a single reward are easier to read.
  const single = typeof reward === 'function' ? entries[0]!.name : entries;
  return { settings: { reward: single }, rewards };
}

/** Splits what is code or data from what a configuration can hold. */
export function plainParts({ dataset, evalDataset, reward, judge }: PlainOptions): {
  settings: Settings;
  parts: PlainParts;
} {
  const { settings, rewards } = rewardParts(reward);
  const parts: PlainParts = { ...(rewards && { rewards }) };
  if (isRows(dataset)) parts.trainRows = dataset;
  if (isRows(evalDataset)) parts.evalRows = evalDataset;
  if (typeof judge === 'function') parts.judge = judge;
  return {
    settings: {
      ...settings,
      ...(dataset !== undefined && { dataset: isRows(dataset) ? memoryName(ROWS) : dataset }),
      ...(evalDataset !== undefined && {
        evalDataset: isRows(evalDataset) ? memoryName(EVALUATION_ROWS) : evalDataset,
      }),
      ...(judge !== undefined && { judge: typeof judge === 'function' ? functionJudgeName(judge) : judge }),
    },
    parts,
  };
}
