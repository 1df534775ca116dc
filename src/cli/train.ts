/** `acoer train`: trains from the command line. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Option, type Command } from 'commander';
import { mergeLayers, PRESETS } from '../config';
import { describeConfigMarkdown } from '../config/describe';
import { badUsage } from '../base/errors';
import { endWithParent, tellFailure, tellFolder } from '../base/parent';
import {
  onlySettings,
  resolveTrainConfig,
  train,
  TRAIN_CALL,
  type RunSummary,
  type TrainOptions,
  type TrainRun,
  type TrainSettings,
} from '../train';
import { launchOf } from '../ranks';
import { readSoundMetrics } from '../run';
import type { KnownMetrics } from '../base/metric-names';
import { hasDesktop, openBrowser, watchBeside } from '../watch';
import { addEngineSettings, ENGINE_SETTINGS, integer, path, repeatable } from './command';
import { printableLine } from '../base/printable';
import { addRanksOptions, inProcesses, type RanksFlags } from './nproc';
import { layersOf, resumedRun, type RunFlags, stoppable } from './run-call';
import { alignTable } from './table';
import { answersLines, closingLines, summaryTable } from './view/closing';
import { ProgressView } from './view/progress';
import { curveLines } from './view/sparkline';
import { wrapWords } from './view/text';
import { printJsonLine, printText } from './output';

/** Column where the facts of the closing lines begin. */
const CLOSING_INDENT = ' '.repeat(12);

/** Options that are shortcuts for settings. */
const SETTINGS = ['reward', 'adapter', 'full', 'maxSteps', 'seed', ...ENGINE_SETTINGS] as const;

interface TrainFlags extends RunFlags, RanksFlags, Pick<TrainSettings, (typeof SETTINGS)[number]> {
  preset?: string;
  samplerUrl: string[];
  acceptChanged?: 'reward';
  watch?: boolean;
}

export function define(command: Command): void {
  const settings = addEngineSettings(
    command
      .argument('[config]', 'YAML or JSON file of settings')
      .option('--preset <name>', `preset to start from: ${Object.keys(PRESETS).join(', ')}`)
      .addOption(repeatable('--set <path=value>', 'override a setting, e.g. --set learningRate=1e-4'))
      .option('--reward <name>', 'reward to train with')
      .addOption(repeatable('--sampler-url <url>', 'sample with this server of vLLM or acoer serve'))
      .option('--resume [run]', 'resume a run (default: --out, else the latest in runs/)')
      .addOption(
        new Option(
          '--accept-changed <what>',
          'with --resume: continue although the reward file has changed',
        ).choices(['reward']),
      )
      .option('--trust', 'with --resume: run the code that the run names (judge, rewards, sampler, sinks)')
      .option('--adapter <folder>', "LoRA adapter to continue training: PEFT's, or final/ of a run", path)
      .option('--full', 'train all weights instead of a LoRA adapter')
      .option('--out <folder>', 'folder of the run (default: runs/<date>-<name>)', path)
      .option('--max-steps <n>', 'optimiser updates', integer(1))
      .option('--seed <n>', 'seed of the run', integer(0)),
  );
  addRanksOptions(settings, 'train')
    .option('--ignore-plan', 'start even if the plan says that the run will not fit in memory')
    .option('--watch', 'show the run in the browser while it trains (see acoer watch)')
    .option('--json', 'print the summary as JSON instead of a table')
    .option('--describe', 'print every setting with its default and meaning, and exit')
    .action((config: string | undefined, flags: TrainFlags) => runTrain(config, flags));
}

/** What `train` is called with for these flags; the settings of a new run are already validated here. */
export function trainCall(configPath: string | undefined, flags: TrainFlags): [TrainSettings, TrainOptions] {
  const { samplerUrl: servers = [] } = flags;
  const layers = layersOf(configPath, flags, SETTINGS);
  // Under --set, which may change other parts of it.
  if (servers.length > 0) layers.splice(-1, 0, { sampler: { type: 'vllm', servers } });
  const { acceptChanged, trust } = flags;
  if (flags.resume === undefined && acceptChanged !== undefined) {
    throw badUsage('--accept-changed goes with --resume.');
  }
  const resume = resumedRun(flags);
  if (resume === undefined) return [resolveTrainConfig(layers, flags.preset), { out: flags.out }];
  return [
    onlySettings(TRAIN_CALL, mergeLayers(layers, flags.preset)),
    {
      resume,
      ...(acceptChanged !== undefined && { acceptChanged: [acceptChanged] }),
      ...(trust === true && { trust }),
    },
  ];
}

async function runTrain(configPath: string | undefined, flags: TrainFlags): Promise<void> {
  if (flags.describe === true) {
    printText(describeConfigMarkdown().trimEnd());
  } else {
    const [settings, options] = trainCall(configPath, flags);
    const { ignorePlan, json = false, watch = false } = flags;
    await inProcesses(flags, () => runAndReport(settings, { ...options, ignorePlan }, json, watch));
  }
}

/** Serves the run's live page, and opens it if there is a screen. */
function showLive(directory: string, view: ProgressView): void {
  const warn = (message: string): void => view.onEvent({ type: 'warning', message });
  const opened = (address: string): void => {
    view.print(`live page  ${address}`);
    if (hasDesktop(process.env)) openBrowser(address, warn);
  };
  watchBeside(directory, opened, warn);
}

/**
 * Runs to the end with live progress, then prints the results.
 * @param watch serve the live page meanwhile
 */
export async function runAndReport(
  settings: TrainSettings,
  options: TrainOptions,
  json: boolean,
  watch = false,
): Promise<void> {
  let recorded: KnownMetrics[] = [];
  const view = new ProgressView(process.stderr, {
    others: process.stdout.isTTY ? [process.stdout] : [],
    recorded: () => recorded,
  });
  const onEvent: TrainOptions['onEvent'] = (event) => {
    if (event.type === 'run') {
      tellFolder(event.directory);
      if (watch) showLive(event.directory, view);
    }
    view.onEvent(event);
  };
  endWithParent();
  await stoppable(view.stopping, async (signal, hold) => {
    try {
      const before = launchOf(process.env)?.run ?? options.resume ?? options.fork?.run;
      if (before !== undefined) recorded = await metricsOf(before);
      const run = await train(settings, { ...options, signal, onEvent, exitWhenBlocked: true });
      hold(run);
      // Not before the engine is there: where a device is missing, nothing is left of the folder.
      if (!json && run.leads) printText(`run ${printableLine(run.directory)}`);
      const summary = await run.result();
      view.close();
      if (run.leads) await report(run, summary, json, view.answers);
    } catch (error) {
      tellFailure(error);
      throw error;
    } finally {
      view.close();
    }
  });
}

/** Without the lines that a power loss has damaged, which the run itself restores. */
const metricsOf = (directory: string): Promise<KnownMetrics[]> =>
  readSoundMetrics(join(directory, 'metrics.jsonl'));

async function report(
  run: TrainRun,
  summary: RunSummary,
  json: boolean,
  answers: ProgressView['answers'],
): Promise<void> {
  if (json) {
    printJsonLine(summary);
    return;
  }
  const metrics = await metricsOf(run.directory);
  const table = summaryTable(summary);
  const columns = process.stdout.columns ?? Infinity;
  const width = Math.min(columns, 100);
  const curves = curveLines(metrics, width);
  const inWords = answersLines(answers.base, answers.trained, width);
  const lines = [
    ...[table, curves].flatMap((block) => (block.length > 0 ? [...block, ''] : [])),
    ...closingLines(summary, metrics).flatMap((line) => wrapWords(line, columns, CLOSING_INDENT)),
    ...(inWords.length > 0 ? ['', ...inWords] : []),
    '',
    ...files(run),
  ];
  process.stdout.write(`${lines.join('\n')}\n`);
}

function files({ directory, config }: TrainRun): string[] {
  const rows: [string, string][] = [
    [
      'final',
      config.full ? 'the trained model, in Hugging Face layout' : 'the trained adapter, in PEFT format',
    ],
    ['metrics.jsonl', 'the metrics of every step'],
    ['completions', 'sampled completions with their rewards'],
    ['evaluations', "the evaluations' answers"],
    ['tensorboard', 'for TensorBoard'],
    ['summary.json', 'the evaluation results'],
  ];
  const found = rows
    .map(([name, meaning]) => [join(directory, name), meaning] as const)
    .filter(([path]) => existsSync(path))
    .map(([path, meaning]) => [printableLine(path), meaning]);
  const table = alignTable(found, 2).map((line) => `  ${line}`);
  return ['Files:', ...table, '', `As a page: acoer report ${printableLine(directory)}`];
}
