/** The reward lab: what a reward does to a group, without training. */
import { needObject } from '../base/border';
import { resolve } from 'node:path';
import { badInput, badUsage } from '../base/errors';
import { didYouMean } from '../config/nearest';
import { shownJson } from '../base/json';
import { openRewardModule } from '../life/modules/reward-module';
import { listRewards, resolveReward } from '../rewards';
import { isBuiltIn } from '../rewards/registry';
import type { BoundReward } from '../rewards/types';
import { adaptationOf } from './adaptation';
import { compositionRow, PAPER_ACCURACIES } from './composition';
import { lengthWeightsOf } from './length-weight';
import { pairPoints } from './pairs';
import {
  lengthsOf,
  recordedPopulation,
  SYNTHETIC_DEFAULTS,
  syntheticDefaults,
  syntheticPopulation,
} from './population';
import type { SyntheticSettings } from './population';
import { predict } from './prediction';
import { answersOf, sweepSpread } from './pressure';
import { recordedBatches, recordedRollouts, recordedSummary, scoreRecorded } from './recorded';
import type { RecordedBatch, RecordedCompletion } from './recorded';
import { byClass, groupOf, mappedInTurn, mixedCorrectCount, sceneOf } from './rollouts';
import { signalsOf } from './signals';
import { checkState, givenState, parametersOf } from './settings';
import {
  CLASSES,
  COMPOSITIONS,
  type LabReport,
  type LabSettings,
  type Population,
  type RewardReport,
  type Study,
} from './types';
import { maximum } from '../base/statistics';

export interface LabOptions extends Partial<LabSettings> {
  /** Names of rewards. Default: every registered one and those of `rewardModules`. */
  rewards?: readonly string[];
  /** Parameters; each is passed to every chosen reward that has it. */
  params?: Readonly<Record<string, unknown>>;
  /** Parameters by reward name; they take precedence. */
  rewardParams?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  /** Rewards from files: name -> JavaScript file whose default export is a reward. */
  rewardModules?: Readonly<Record<string, string>>;
  /** State values that replace initial ones; each is passed to every chosen reward whose state has it. */
  state?: Readonly<Record<string, unknown>>;
  /** Recorded completions; without them the groups are synthetic. */
  completions?: readonly RecordedCompletion[];
  /** Advance the states over the recorded batches in order, as in training. */
  observe?: boolean;
  /** Settings of the synthetic groups; not with recorded completions. */
  synthetic?: Partial<Omit<SyntheticSettings, 'maxLength'>>;
}

/** The training loop's defaults. */
export const LAB_DEFAULTS: LabSettings = {
  maxLength: SYNTHETIC_DEFAULTS.maxLength,
  epsilon: 1e-4,
  scale: 'group',
  formatWeight: 1,
  timeoutMs: 10_000,
};

function settingsOf(options: LabOptions): LabSettings {
  const { maxLength, epsilon, scale, formatWeight, timeoutMs } = { ...LAB_DEFAULTS, ...options };
  return { maxLength, epsilon, scale, formatWeight, timeoutMs };
}

function chosenNames({ rewards, rewardModules = {} }: LabOptions): string[] {
  const modules = Object.keys(rewardModules);
  const taken = modules.find(isBuiltIn);
  if (taken !== undefined) {
    throw badUsage(`rewardModules.${taken} is built in; choose another name`);
  }
  const nameless = Object.entries<unknown>(rewardModules).find(([, file]) => typeof file !== 'string');
  if (nameless !== undefined) {
    throw badUsage(`rewardModules.${nameless[0]} must name a JavaScript file.`);
  }
  const known = [...new Set([...listRewards().map(({ name }) => name), ...modules])];
  const names = [...new Set(rewards ?? known)];
  const unknown = names.find((name) => !known.includes(name));
  if (names.length > 0 && unknown === undefined) return names;
  const why = unknown === undefined ? 'No reward was named' : `Unknown reward ${shownJson(unknown)}`;
  throw badUsage(`${why}${didYouMean(unknown ?? '', known)} (known: ${known.join(', ')})`);
}

interface Source {
  population: Population;
  batches: RecordedBatch[] | null;
}

function sourceOf({ completions, synthetic, observe }: LabOptions, settings: LabSettings): Source {
  if (completions === undefined) {
    const { maxLength } = settings;
    const given = { ...syntheticDefaults(maxLength), ...synthetic, maxLength };
    return { population: syntheticPopulation(given), batches: null };
  }
  if (completions.length === 0) throw badInput('There are no recorded completions.');
  const sources = new Set(completions.map(({ source }) => source));
  if (observe === true && sources.size > 1) {
    throw badUsage(`A state can follow the steps of one run, not of ${sources.size}.`);
  }
  const batches = recordedBatches(completions, settings);
  const groupSize = maximum(batches[0]!.groups.map((group) => group.rollouts.length));
  return { population: recordedPopulation(recordedRollouts(batches), groupSize), batches };
}

function mixedPressureOf({ mixed }: RewardReport['sweeps']): RewardReport['mixedPressure'] {
  const { correct, incorrect } = mixed.points[0]!;
  if (correct === null || incorrect === null) return null;
  const accuracy = correct.count / (correct.count + incorrect.count);
  const C = Math.sqrt(accuracy * (1 - accuracy));
  return { C, approximate: incorrect.rewardSlope / C, exact: incorrect.advantageSlope };
}

/** The report on one reward in one state. */
async function reportOn(study: Study): Promise<Omit<RewardReport, 'name' | 'state' | 'recorded'>> {
  const { answers } = await answersOf(study, sceneOf(groupOf(study.population, 'mixed')));
  const sweeps = await mappedInTurn(COMPOSITIONS, (composition) => sweepSpread(study, composition));
  const { curves, signals } = await signalsOf(study);
  const pairs = await mappedInTurn(CLASSES, (kind) => pairPoints(study, kind));
  const { adaptation, settled } = await adaptationOf(study);
  const { signals: settledSignals } = await signalsOf({ ...study, state: settled });
  return {
    answers,
    sweeps,
    mixedPressure: mixedPressureOf(sweeps),
    pairs,
    curves,
    signals,
    settledSignals,
    lengthWeights: await lengthWeightsOf(study),
    adaptation,
    prediction: predict({ sweeps, signals, settledSignals, adaptation }),
  };
}

async function examine(
  reward: BoundReward,
  options: LabOptions,
  settings: LabSettings,
  { population, batches }: Source,
): Promise<RewardReport> {
  const start = givenState(reward, settings, options.state ?? {});
  const { recorded, state } =
    batches === null
      ? { recorded: null, state: start }
      : await scoreRecorded(reward, start, batches, settings, options.observe === true);
  const report = await reportOn({ reward, state, settings, population });
  return { name: reward.name, state, ...report, recorded };
}

/** Opens the chosen rewards, files in their own threads. The caller closes them, also after a failure. */
async function openChosen(options: LabOptions, settings: LabSettings, opened: BoundReward[]): Promise<void> {
  const names = chosenNames(options);
  const params = parametersOf(names, options.params ?? {}, options.rewardParams ?? {});
  const { maxLength, timeoutMs } = settings;
  for (const name of names) {
    const file = options.rewardModules?.[name];
    opened.push(
      file === undefined
        ? resolveReward(name, params[name])
        : await openRewardModule({ name, path: resolve(file), params: params[name]!, maxLength }, timeoutMs),
    );
  }
}

/**
 * Shows side by side what rewards give a group and how hard they push on its lengths.
 *
 * @throws BAD_CONFIG, BAD_INPUT, or REWARD_FAILED naming the reward and the answer
 */
export async function runLab(options: LabOptions = {}): Promise<LabReport> {
  needObject('the options of runLab()', options);
  const settings = settingsOf(options);
  const source = sourceOf(options, settings);
  const bound: BoundReward[] = [];
  try {
    await openChosen(options, settings, bound);
    if (options.state !== undefined) checkState(bound, settings, options.state);
    const rewards: RewardReport[] = [];
    for (const reward of bound) rewards.push(await examine(reward, options, settings, source));
    return reportOf(source, settings, rewards);
  } finally {
    for (const reward of bound) await reward.close?.();
  }
}

function reportOf(source: Source, settings: LabSettings, rewards: RewardReport[]): LabReport {
  const { population, batches } = source;
  const { accuracy, groupSize } = population;
  const accuracies = [...new Set([...PAPER_ACCURACIES, accuracy])].sort((a, b) => a - b);
  return {
    settings,
    groupSize,
    accuracy,
    correctCount: mixedCorrectCount(population),
    lengths: byClass((kind) => lengthsOf(population, kind)),
    recorded: batches === null ? null : recordedSummary(batches),
    compositions: accuracies.map((p) => compositionRow(p, groupSize)),
    rewards,
  };
}
