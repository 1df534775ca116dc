/** `acoer plan`: what a run will need, before it is started. */
import { Option, type Command } from 'commander';
import { parseAssignments, PRESETS, readConfigFile, type Config } from '../config';
import { createEngine } from '../engine/engine';
import type { DeviceName } from '../engine/types';
import { badUsage } from '../base/errors';
import { longestLocalPrompt, resolveTrainConfig } from '../train';
import {
  assertRoomForPrompt,
  DEFAULT_PROMPT_TOKENS,
  DEVICE_NAMES,
  engineDevice,
  namedDevice,
  plannedDtype,
  plannedModel,
  planRunPaced,
  planTable,
  TABLE_CARDS,
  TABLE_MODELS,
  type LengthTrajectory,
  type PlanDevice,
  type PlannedModel,
} from '../plan';
import { integer, repeatable } from './command';
import { interruptible } from './interrupt';
import { planReport } from './view/plan-report';
import { planTableReport } from './view/plan-table';
import { printJsonLine, printNote, printText } from './output';

interface PlanFlags {
  preset?: string;
  set: string[];
  deviceName?: string;
  ranks: number;
  promptTokens?: number;
  lengths?: string;
  measure: boolean;
  table?: boolean;
  models?: string;
  json?: boolean;
}

/** `5553,2134`: mean completion tokens at the first and the last step; `cap`: all reach the cap. */
function lengthsOf(text: string | undefined): LengthTrajectory | undefined {
  if (text === undefined) return undefined;
  if (text === 'cap') return { first: Infinity, last: Infinity };
  const [first, last = first, ...rest] = text.split(',').map(Number);
  if (rest.length > 0 || !(first! > 0) || !(last! > 0)) {
    throw badUsage(`--lengths ${text}: expected FIRST,LAST in tokens, or cap.`);
  }
  return { first: first!, last: last! };
}

async function machineDevice(config: Config, model: PlannedModel, measure: boolean): Promise<PlanDevice> {
  await using engine = await createEngine({
    device: config.device as DeviceName,
    threads: config.threads ?? undefined,
  });
  return await engineDevice(engine, measure ? plannedDtype(config, model) : undefined);
}

async function table(config: Config, flags: PlanFlags, signal: AbortSignal): Promise<void> {
  const list = (text: string | undefined, usual: readonly string[]): readonly string[] =>
    text?.split(',').map((name) => name.trim()) ?? usual;
  const models = list(flags.models, TABLE_MODELS);
  const cards = list(flags.deviceName, TABLE_CARDS);
  const { ranks, promptTokens = config.maxPromptLength ?? DEFAULT_PROMPT_TOKENS } = flags;
  const given = { ranks, promptTokens, lengths: lengthsOf(flags.lengths) };
  const result = await planTable(config, { models, cards }, given, signal);
  if (flags.json) printJsonLine(result);
  else printText(planTableReport(result, config.kvCacheDtype));
}

async function plan(path: string | undefined, flags: PlanFlags, signal: AbortSignal): Promise<void> {
  const layers = [...(path === undefined ? [] : [readConfigFile(path)]), parseAssignments(flags.set)];
  const config = resolveTrainConfig(layers, flags.preset);
  if (flags.table) return await table(config, flags, signal);
  if (flags.models !== undefined) throw badUsage('--models is for --table; a plan is for one --set model=.');
  const lengths = lengthsOf(flags.lengths);
  const model = await plannedModel(config.model);
  assertRoomForPrompt(config, model);
  const device =
    flags.deviceName === undefined
      ? await machineDevice(config, model, flags.measure)
      : namedDevice(flags.deviceName, plannedDtype(config, model));
  const promptTokens = flags.promptTokens ?? (await longestLocalPrompt(config, model));
  if (promptTokens === undefined) {
    const taken =
      config.maxPromptLength === null ? DEFAULT_PROMPT_TOKENS : `maxPromptLength = ${config.maxPromptLength}`;
    printNote(
      `The data or the model's tokenizer is not on this machine, so prompts of ${taken} tokens are assumed; use --prompt-tokens to set their length.`,
    );
  }
  const result = await planRunPaced(
    { config, model, device, ranks: flags.ranks, promptTokens, lengths },
    signal,
  );
  if (flags.json) printJsonLine(result);
  else printText(planReport(result));
  if (!result.fits) process.exitCode = 1;
}

export function define(command: Command): void {
  command
    .argument('[config]', 'YAML or JSON file of settings')
    .option('--preset <name>', `preset to start from: ${Object.keys(PRESETS).join(', ')}`)
    .addOption(repeatable('--set <path=value>', 'override a setting, e.g. --set microBatchTokens=8192'))
    .addOption(
      new Option(
        '--device-name <name>',
        `plan for this GPU instead of the local device: ${DEVICE_NAMES.join(', ')}`,
      ),
    )
    .addOption(
      new Option('--ranks <n>', 'processes that share the run, each on a device of its own')
        .argParser(integer(1))
        .default(1),
    )
    .option(
      '--prompt-tokens <n>',
      "tokens of the longest prompt (default: the data's if it is on this machine, else maxPromptLength, else 150)",
      integer(1),
    )
    .option(
      '--lengths <first,last>',
      "mean completion tokens at the first and last step, or cap (default: the paper's, relative to the cap)",
    )
    .option('--no-measure', "do not measure this machine's speed, and predict no times")
    .option(
      '--table',
      `instead of one plan, whether the run fits and how long it takes with the base in its own type, int8 and nf4: models down, cards across (default: ${TABLE_CARDS.join(',')}, or those of --device-name)`,
    )
    .option(
      '--models <names>',
      `with --table: the models, separated by commas (default: ${TABLE_MODELS.join(',')})`,
    )
    .option('--json', 'print the plan as one JSON object')
    .addHelpText('after', '\nExit code: 0 when the run fits, 1 when it does not.')
    .action((path: string | undefined, flags: PlanFlags) =>
      interruptible((signal) => plan(path, flags, signal)),
    );
}
