/** `acoer plan`: what a run will take, before it is started. */
import { Option, type Command } from 'commander';
import { parseAssignments, PRESETS, readConfigFile, type Config } from '../config';
import { createEngine } from '../engine/engine';
import type { DeviceName } from '../engine/types';
import { AcoerError } from '../errors';
import { longestLocalPrompt, resolveTrainConfig } from '../train';
import {
  assertRoomForPrompt,
  DEFAULT_PROMPT_TOKENS,
  DEVICE_NAMES,
  engineDevice,
  namedDevice,
  plannedDtype,
  plannedModel,
  planRun,
  type LengthTrajectory,
  type PlanDevice,
  type PlannedModel,
} from '../plan';
import { collect, integer } from './command';
import { planReport } from './view/plan-report';

interface PlanFlags {
  preset?: string;
  set: string[];
  deviceName?: string;
  promptTokens?: number;
  lengths?: string;
  measure: boolean;
  json?: boolean;
}

/** `5553,2134`: mean completion tokens at the first and the last step; `cap`: every completion is cut off. */
function lengthsOf(text: string | undefined): LengthTrajectory | undefined {
  if (text === undefined) return undefined;
  if (text === 'cap') return { first: Infinity, last: Infinity };
  const [first, last = first, ...rest] = text.split(',').map(Number);
  if (rest.length > 0 || !(first! > 0) || !(last! > 0)) {
    throw new AcoerError('BAD_CONFIG', `--lengths ${text}: write it as FIRST,LAST in tokens, or as cap.`);
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

async function plan(path: string | undefined, flags: PlanFlags): Promise<void> {
  const layers = [...(path === undefined ? [] : [readConfigFile(path)]), parseAssignments(flags.set)];
  const config = resolveTrainConfig(layers, flags.preset);
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
    process.stderr.write(
      `The data or the model's tokenizer is not on this machine: prompts of ${taken} tokens are assumed. --prompt-tokens says how long they are.\n`,
    );
  }
  const result = planRun({ config, model, device, promptTokens, lengths });
  process.stdout.write(`${flags.json ? JSON.stringify(result) : planReport(result)}\n`);
  if (!result.fits) process.exitCode = 1;
}

export function define(command: Command): void {
  command
    .argument('[config]', 'YAML or JSON file of settings')
    .option('--preset <name>', `settings to start from: ${Object.keys(PRESETS).join(', ')}`)
    .option('--set <path=value>', 'one setting, e.g. --set microBatchTokens=8192 (repeatable)', collect, [])
    .addOption(new Option('--device-name <name>', `a GPU that need not be here: ${DEVICE_NAMES.join(', ')}`))
    .option(
      '--prompt-tokens <n>',
      "tokens of the longest prompt (default: the data's where it is on this machine, else maxPromptLength, else 150)",
      integer(1),
    )
    .option(
      '--lengths <first,last>',
      "mean completion tokens at the first and last step, or cap (default: the paper's, as shares of the cap)",
    )
    .option('--no-measure', "leave out this machine's speed, and so all times")
    .option('--json', 'the plan as one JSON object')
    .addHelpText('after', '\nExit code: 0 when the run fits, 1 when it does not.')
    .action(plan);
}
