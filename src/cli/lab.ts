/** `acoer lab`: what rewards do to a group, without any training. */
import { statSync } from 'node:fs';
import { InvalidArgumentError, Option, type Command } from 'commander';
import { parseAssignments } from '../config';
import { badUsage } from '../base/errors';
import { isRecord, parsedJson } from '../base/json';
import { LAB_DEFAULTS, plotLab, runLab, SYNTHETIC_DEFAULTS } from '../lab';
import type { LabOptions, LengthDistribution } from '../lab';
import { writeFileAtomic } from '../run';
import { integer, number, repeatable } from './command';
import { readRecordings, type RunSettings } from './recordings';
import { labLines } from './view/lab';
import { maximum } from '../base/statistics';
import { rememberModules } from '../train';
import { printJsonLine, printNote, printText } from './output';

interface LabFlags {
  reward?: string[];
  set: string[];
  state?: Record<string, unknown>;
  observe?: boolean;
  accuracy?: number;
  group?: number;
  maxLength?: number;
  correctLength?: LengthDistribution;
  incorrectLength?: LengthDistribution;
  answerTokens?: number;
  seed?: number;
  scaleRewards?: LabOptions['scale'];
  advantageEpsilon?: number;
  formatWeight?: number;
  json?: boolean;
  svg?: string;
}

function lengths(text: string): LengthDistribution {
  const [mean, std = 0, ...rest] = text.split(':').map((part) => (part.trim() === '' ? NaN : Number(part)));
  if (rest.length === 0 && mean !== undefined && mean > 0 && std >= 0 && Number.isFinite(mean + std)) {
    return { mean, std };
  }
  throw new InvalidArgumentError('It must be MEAN or MEAN:SD in tokens, such as 4000:1200.');
}

function jsonObject(text: string): Record<string, unknown> {
  const value = parsedJson(text);
  if (isRecord(value)) return value;
  throw new InvalidArgumentError('It must be a JSON object, such as {"alpha":0.3,"budget":2000}.');
}

const names = (text: string, previous: string[] = []) => [
  ...previous,
  ...text
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== ''),
];
/** Options that describe synthetic groups. */
const SYNTHETIC_FLAGS = {
  accuracy: '--accuracy',
  group: '--group',
  correctLength: '--correct-length',
  incorrectLength: '--incorrect-length',
  answerTokens: '--answer-tokens',
  seed: '--seed',
} as const;

function refuseSynthetic(flags: LabFlags): void {
  const given = Object.entries(SYNTHETIC_FLAGS).find(
    ([name]) => flags[name as keyof typeof SYNTHETIC_FLAGS] !== undefined,
  );
  if (given === undefined) return;
  throw badUsage(
    `${given[1]} describes synthetic groups and cannot be combined with recorded files; remove it.`,
  );
}

function syntheticOptions(flags: LabFlags): LabOptions['synthetic'] {
  const { accuracy, group, correctLength: correct, incorrectLength: incorrect, answerTokens, seed } = flags;
  const given = { accuracy, groupSize: group, correct, incorrect, answerTokens, seed };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

/**
 * `rewardParams.<name>.<parameter>` and `rewardModules.<name>` are as in a run's configuration; other names
 * are parameters.
 */
function parameterOptions(assignments: readonly string[]): LabOptions {
  const { rewardParams, rewardModules, ...params } = parseAssignments(assignments);
  return {
    params,
    ...(rewardParams && { rewardParams }),
    ...(rewardModules && { rewardModules }),
  };
}

/** A setting shared by all runs; undefined if they differ or there are none. */
function agreed<Name extends keyof RunSettings>(
  runs: readonly RunSettings[],
  name: Name,
): RunSettings[Name] | undefined {
  const [first] = runs;
  return runs.every((run) => run[name] === first![name]) ? first?.[name] : undefined;
}

async function sourceOptions(files: readonly string[], flags: LabFlags): Promise<LabOptions> {
  if (files.length === 0) {
    if (flags.observe === true) {
      throw badUsage('--observe follows recorded steps; name a file that has some.');
    }
    return { synthetic: syntheticOptions(flags), maxLength: flags.maxLength ?? LAB_DEFAULTS.maxLength };
  }
  refuseSynthetic(flags);
  const { completions, runs } = await readRecordings(files);
  const maxLength = maximum(runs.map((run) => run.maxCompletionLength));
  return {
    completions,
    maxLength: flags.maxLength ?? (runs.length > 0 ? maxLength : LAB_DEFAULTS.maxLength),
    observe: flags.observe === true,
    scale: agreed(runs, 'scaleRewards'),
    epsilon: agreed(runs, 'advantageEpsilon'),
    formatWeight: agreed(runs, 'formatWeight'),
  };
}

/** Fails before the work starts if the plot cannot be written. */
function checkPlotPath(path: string): void {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory() === true) {
    throw badUsage(`--svg ${path} is a folder; name a file.`);
  }
}

async function lab(files: string[], flags: LabFlags): Promise<void> {
  if (flags.svg !== undefined) checkPlotPath(flags.svg);
  const source = await sourceOptions(files, flags);
  const own = parameterOptions(flags.set);
  const modules = Object.entries(own.rewardModules ?? {});
  await rememberModules(
    modules.map(([name, path]) => ({ kind: 'reward' as const, name, path })),
    printNote,
  );
  const report = await runLab({
    ...source,
    ...(flags.reward && { rewards: flags.reward }),
    ...(flags.state && { state: flags.state }),
    ...own,
    scale: flags.scaleRewards ?? source.scale ?? LAB_DEFAULTS.scale,
    epsilon: flags.advantageEpsilon ?? source.epsilon ?? LAB_DEFAULTS.epsilon,
    formatWeight: flags.formatWeight ?? source.formatWeight ?? LAB_DEFAULTS.formatWeight,
  });
  if (flags.svg !== undefined) {
    const svg = await plotLab(report);
    try {
      writeFileAtomic(flags.svg, svg);
    } catch (cause) {
      throw badUsage(`Cannot write --svg ${flags.svg}: ${String(cause)}`, cause);
    }
  }
  if (flags.json === true) printJsonLine(report);
  else printText(labLines(report).join('\n'));
}

const { correct, incorrect } = SYNTHETIC_DEFAULTS;
const shown = ({ mean, std }: LengthDistribution) => `${mean}:${std}`;

export function define(command: Command): void {
  command
    .argument(
      '[file...]',
      'runs, completion tables (.parquet) or JSON Lines; -: standard input; none: synthetic groups',
    )
    .option('--reward <names>', 'rewards by name, separated by commas (default: all)', names)
    .addOption(repeatable('--set <name=value>', 'set a parameter of every chosen reward that has it'))
    .option(
      '--state <json>',
      'values that override the rewards\' initial state, e.g. {"alpha":0.3,"budget":2000}',
      jsonObject,
    )
    .option('--observe', "update the rewards' states over the recorded steps, as in training")
    .option(
      '--accuracy <p>',
      `fraction of correct answers (default: ${SYNTHETIC_DEFAULTS.accuracy})`,
      number(0, 1),
    )
    .option('--group <n>', `answers per group (default: ${SYNTHETIC_DEFAULTS.groupSize})`, integer(2, 1024))
    .option(
      '--max-length <n>',
      `L, the maximum completion length (default: the run's, else ${LAB_DEFAULTS.maxLength})`,
      integer(2),
    )
    .option(
      '--correct-length <mean:sd>',
      `thinking tokens of correct answers (default at L ${SYNTHETIC_DEFAULTS.maxLength}: ${shown(correct)})`,
      lengths,
    )
    .option(
      '--incorrect-length <mean:sd>',
      `thinking tokens of incorrect answers (default at L ${SYNTHETIC_DEFAULTS.maxLength}: ${shown(incorrect)})`,
      lengths,
    )
    .option(
      '--answer-tokens <n>',
      `tokens after the thinking (default at L ${SYNTHETIC_DEFAULTS.maxLength}: ${SYNTHETIC_DEFAULTS.answerTokens})`,
      integer(0),
    )
    .option('--seed <n>', `seed of the synthetic lengths (default: ${SYNTHETIC_DEFAULTS.seed})`, integer(0))
    .addOption(
      new Option(
        '--scale-rewards <by>',
        `what advantages are divided by (default: the run's, else ${LAB_DEFAULTS.scale})`,
      ).choices(['group', 'batch', 'none']),
    )
    .option(
      '--advantage-epsilon <x>',
      `added to that std; the paper uses 0 (default: the run's, else ${LAB_DEFAULTS.epsilon})`,
      number(0),
    )
    .option(
      '--format-weight <w>',
      `weight of the format reward (default: the run's, else ${LAB_DEFAULTS.formatWeight})`,
      number(0),
    )
    .option('--json', 'print all results as one JSON object')
    .option('--svg <file>', 'write a plot to this SVG file')
    .addHelpText(
      'after',
      `
Shows for each reward, side by side: rewards and advantages; how often groups
are mixed, all correct or all incorrect; how the advantage depends on an
answer's own length as the lengths in its group become more alike; and the
collapse pathways this opens.

A file is the folder of a run, a completion table of a run, or JSON Lines as for
acoer reward.

The setting rewardParams.NAME.PARAMETER applies to one reward;
rewardModules.NAME=FILE adds your own reward.

  acoer lab --reward acc,acoer,grpo-lp --svg lab.svg
  acoer lab --set rewardModules.mine=./mine.js --reward mine,beta0
  acoer lab --reward acoer --state '{"alpha":0.3,"budget":2000}' --accuracy 0.9
  acoer lab runs/20260101-120000-acoer --observe --json`,
    )
    .action(lab);
}
