/** `acoer reward`: rewards and advantages as JSON Lines for verdicts and lengths as JSON Lines. */
import { closeSync, openSync, writeSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { z } from 'zod';
import { badConfig, configSchema, parseAssignments } from '../config';
import { problemsOf } from '../config/problems';
import { badInput, badUsage, errorMessage } from '../base/errors';
import { batchAdvantages, observeBatch, scoreBatch } from '../grpo';
import type { WeightedReward } from '../rewards/types';
import { openRewardModule, rememberModules } from '../train';
import { type BoundReward, resolveReward } from '../rewards';
import { bursts } from './bursts';
import { collect, required } from './command';
import { openInput, parseJsonLines } from './jsonl';
import { groupLines, rewardReader, type RewardLine } from './reward-lines';
import { rewardRecords, rewardTable } from './reward-list';
import { printJsonLine, printNote, printText } from './output';

interface RewardFlags {
  reward?: string;
  set: string[];
  state?: string;
  list?: boolean;
  json?: boolean;
}

/** A program that waits for its answers gets them after this long; a file or pipe is never this quiet. */
const QUIET_MS = 200;

/** Settings of a run that affect rewards, under their configuration names; L is `maxLength` here. */
const settingsSchema = configSchema
  .pick({
    formatWeight: true,
    rewardTimeoutMs: true,
    multiObjectiveAggregation: true,
    scaleRewards: true,
    advantageEpsilon: true,
    numRemainsInGroup: true,
    groupFilter: true,
    rewardModules: true,
  })
  .extend({ maxLength: z.int().min(1).default(8192) });

type Settings = z.output<typeof settingsSchema>;

/** Splits `--set` into settings and parameters of the reward (or rewardParams.<name>.<parameter>). */
function readSettings(name: string, assignments: readonly string[]) {
  const { rewardParams, ...given } = parseAssignments(assignments) as Record<string, unknown>;
  const known = Object.keys(settingsSchema.shape);
  const isSetting = ([key]: [string, unknown]) => known.includes(key);
  const chosen = Object.fromEntries(Object.entries(given).filter(isSetting));
  const parsed = settingsSchema.safeParse(chosen);
  if (!parsed.success)
    throw badConfig(parsed.error.issues.flatMap((issue) => problemsOf(issue, chosen, known)));
  const params = {
    ...(rewardParams as Record<string, Record<string, unknown>> | undefined)?.[name],
    ...Object.fromEntries(Object.entries(given).filter((entry) => !isSetting(entry))),
  };
  return { settings: parsed.data, params };
}

/** Writes the reward's state after each step. Created at the first step, so never for bad input. */
class StateFile implements Disposable {
  private file: number | null = null;

  constructor(private readonly path: string) {}

  open(): void {
    try {
      this.file ??= openSync(this.path, 'w');
    } catch (cause) {
      throw badInput(`Cannot write ${this.path}: ${errorMessage(cause)}`, cause);
    }
  }

  write(value: object): void {
    writeSync(this.file!, `${JSON.stringify(value)}\n`);
  }

  [Symbol.dispose](): void {
    if (this.file !== null) closeSync(this.file);
  }
}

/** Computes and writes a step's rewards, then updates the reward's state. */
function rewarder(
  reward: BoundReward,
  own: Settings,
  stateFile: StateFile | undefined,
): (lines: readonly RewardLine[]) => Promise<void> {
  const weighted: readonly WeightedReward[] = [{ reward, weight: 1 }];
  const { maxLength, formatWeight, rewardTimeoutMs: timeoutMs } = own;
  let states: Record<string, unknown> = { [reward.name]: reward.initialState(own) };
  return async (lines) => {
    stateFile?.open();
    const { step } = lines[0]!;
    const { groups, rollouts } = groupLines(lines, maxLength);
    const settings = { step, maxLength, formatWeight, timeoutMs };
    const rewards = await scoreBatch(groups, weighted, states, settings);
    const advantages = batchAdvantages(groups, rewards, own);
    const position = new Map(groups.flatMap((group) => group.rollouts).map((rollout, i) => [rollout, i]));
    for (const [i, { given }] of lines.entries()) {
      const at = position.get(rollouts[i]!)!;
      const { total, parts } = rewards.rewards[at]!;
      const withFormat = { ...parts, format: parts.format ?? 0 };
      printJsonLine({ ...given, reward: total, parts: withFormat, advantage: advantages.values[at] });
    }
    states = await observeBatch(groups, weighted, states, settings);
    stateFile?.write({ step, ...reward.snapshot?.(states[reward.name]) });
  };
}

async function* checkedLines(file: string | undefined, needsText: boolean): AsyncGenerator<RewardLine> {
  const check = rewardReader(needsText);
  for await (const line of parseJsonLines(await openInput(file))) yield check(line);
}

/**
 * Passes each step's lines to `take` after the next step has begun or the input has ended, as soon as nothing
 * more is arriving.
 */
async function eachStep(
  lines: AsyncIterator<RewardLine>,
  take: (step: RewardLine[]) => Promise<void>,
): Promise<void> {
  let pending: RewardLine[] = [];
  for await (const burst of bursts(lines, QUIET_MS)) {
    for (const line of burst) {
      if (pending.length > 0 && pending[0]!.step !== line.step) {
        await take(pending);
        pending = [];
      }
      pending.push(line);
    }
  }
  if (pending.length > 0) await take(pending);
}

function list({ reward, json }: RewardFlags): void {
  const names = reward?.split(',').map((name) => name.trim());
  for (const name of names ?? []) resolveReward(name);
  const width = Math.min(process.stdout.columns ?? 100, 100);
  if (json === true) printJsonLine(rewardRecords(names));
  else printText(rewardTable(names, width));
}

async function computeRewards(file: string | undefined, flags: RewardFlags): Promise<void> {
  if (flags.list === true) return list(flags);
  const name = required(flags.reward, '--reward');
  if (name === 'format') {
    throw badUsage('format is always added to the reward; set its weight with --set formatWeight=2.');
  }
  const { settings, params } = readSettings(name, flags.set);
  const reward = await openReward(name, settings, params);
  try {
    using stateFile = flags.state === undefined ? undefined : new StateFile(flags.state);
    const lines = checkedLines(file, params.lengthUnit === 'chars');
    await eachStep(lines, rewarder(reward, settings, stateFile));
  } finally {
    await reward.close?.();
  }
}

async function openReward(
  name: string,
  settings: Settings,
  params: Record<string, unknown>,
): Promise<BoundReward> {
  const { rewardModules, rewardTimeoutMs, maxLength } = settings;
  const file = rewardModules[name];
  if (file === undefined) return resolveReward(name, params);
  await rememberModules([{ kind: 'reward', name, path: file }], printNote);
  return openRewardModule({ name, path: resolve(file), params, maxLength }, rewardTimeoutMs);
}

export function define(command: Command): void {
  command
    .argument('[file]', 'JSON Lines file; standard input if omitted or -')
    .option('--reward <name>', 'name of the reward; --list shows all')
    .option('--set <name=value>', 'a parameter of the reward, or maxLength, formatWeight, ...', collect, [])
    .option('--state <file>', "write the reward's state after each step to this file, as JSON Lines")
    .option(
      '--list',
      'print every reward and how it presses on length (with --reward A,B: only these, with their parameters)',
    )
    .option('--json', 'with --list: print JSON')
    .addHelpText(
      'after',
      `
Each line is a completion, {"step": 0, "group": 0, "correct": true,
"thinkingTokens": 70, "totalTokens": 79, "format": true, "thinkingClosed": true}
(the last is optional), ordered by step. Each is written again with "reward",
"parts" and "advantage" once its step is complete. Lines with the same step and
group form a group. "problem" names the prompt for rewards that remember prompts
(default: "group").

Settings: maxLength (8192), formatWeight, scaleRewards, advantageEpsilon,
multiObjectiveAggregation, numRemainsInGroup, groupFilter, rewardTimeoutMs,
rewardModules.<name>=<file> (your own reward); all other names are parameters of
the reward.`,
    )
    .action(computeRewards);
}
